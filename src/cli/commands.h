/* The commands of the program: one function and one file each, found by main.c in a table. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

enum exit_status {
    STATUS_DONE = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2, /* the command line itself is wrong */
    STATUS_DAMAGE = 3, /* stored bytes fail their checks */
};

/* argv[0] is the command's own name; the result is the process's exit status. */
int cmd_bench(int argc, char **argv);
int cmd_bucket(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_get(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_put(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_stat(int argc, char **argv);

#endif
