/* The program: looks its first argument up in the table of commands and runs it.

   Everything a command says on standard output is flushed here, so that a full disk or a closed
   pipe behind it is not taken for success. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/commands.h"
#include "cli/output.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

static const struct command commands[] = {
    {"serve", cmd_serve, "serve the store over HTTP"},
    {"import", cmd_import, "copy a directory tree into a bucket"},
    {"export", cmd_export, "copy a bucket into a directory tree"},
    {"put", cmd_put, "store one file or what comes from a pipe"},
    {"get", cmd_get, "write one object to a file or a pipe"},
    {"ls", cmd_ls, "list buckets or keys"},
    {"stat", cmd_stat, "show what is known about an object"},
    {"rm", cmd_rm, "remove objects"},
    {"bucket", cmd_bucket, "create, list, open, close or delete buckets"},
    {"info", cmd_info, "show the state of the store"},
    {"check", cmd_check, "verify every byte of the store"},
    {"bench", cmd_bench, "measure how fast this machine stores objects"},
};

static void print_usage(FILE *out)
{
    fputs("usage: shoal COMMAND [OPTION]... [ARGUMENT]...\n\n"
          "A store and HTTP server for hundreds of millions of small files.\n\n"
          "commands:\n",
        out);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\n'shoal COMMAND --help' explains a command. The store is a directory, given as\n"
          "--data DIR or in SHOAL_DATA. Objects are named BUCKET/KEY.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 3 damage found.\n",
        out);
}

static int run_command(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    char shown[64];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return STATUS_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        puts("shoal " SHOAL_VERSION);
        return STATUS_DONE;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (*name)
        complain(NULL, "unknown command '%s'; see 'shoal --help'",
            escape(name, strlen(name), shown, sizeof shown));
    else
        print_usage(stderr);
    return STATUS_USAGE;
}

/* A tree's depth and RocksDB's files need more descriptors than the usual soft limit of 1,024. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* then the old limit holds */
    }
}

int main(int argc, char **argv)
{
    raise_descriptor_limit();
    int status = run_command(argc, argv);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        complain(NULL, "standard output can't be written: %s",
            errno ? strerror(errno) : "a write failed");
        if (status == STATUS_DONE)
            status = STATUS_FAILED;
    }
    return status;
}
