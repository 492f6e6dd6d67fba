/* Opening the store for one command.

   A command says what it wants to do (read, write, or write and create); everything else, down to
   the wording of refusals, is here, so that all commands say the same thing about the same state.
   Reading commands open read-only, which works on a directory that can't be written.

   What can fail: the directory is missing, no store, unreadable, of a newer format, or held by
   another process. shoal_open's own text names file and pid; the advice is added here. */
#include "cli/access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"

const char *access_dir(const struct command_help *help, const char *data)
{
    if (!data)
        data = getenv("SHOAL_DATA");
    if (data && *data)
        return data;
    (void)options_wrong(help, "no data directory: give --data DIR or set SHOAL_DATA");
    return NULL;
}

int access_try(
    const char *dir, enum access_use use, struct shoal **ret_store, struct shoal_error *ret_error)
{
    struct shoal_options options = {
        .create = use == ACCESS_CREATE,
        .read_only = use == ACCESS_READ,
    };
    memset(ret_error, 0, sizeof *ret_error);
    int code = shoal_open(dir, &options, ret_store, ret_error);
    if (code < 0)
        ret_error->code = code;
    return code;
}

const char *access_advice(int code)
{
    switch (code) {
    case SHOAL_E_ABSENT:
        return "; 'shoal ls' shows the keys that exist";
    case SHOAL_E_NO_BUCKET:
        return "; 'shoal ls' shows the buckets, 'shoal bucket create' makes one";
    case SHOAL_E_NOT_EMPTY:
        return "; empty it first with 'shoal rm -r'";
    case SHOAL_E_CORRUPT:
        return "; 'shoal check' shows all damage";
    case SHOAL_E_FORMAT:
        return "; use a shoal at least as new as the one that wrote it";
    case SHOAL_E_BUSY:
        return "; stop that process, or use another directory";
    case SHOAL_E_NO_STORE:
    case -ENOENT:
        return "; check --data, or make a store with 'shoal bucket create', import, put or serve";
    case -ENOSPC:
    case -EDQUOT:
        return "; free space on its file system, then try again";
    case -EACCES:
    case -EPERM:
        return "; run as the owner of the files or change their permissions";
    case -EROFS:
    case SHOAL_E_READ_ONLY:
        return "; make the directory writable and try again";
    case -ENOTDIR:
        return "; name a directory";
    case -EMFILE:
    case -ENFILE:
        return "; raise the limit of open files (ulimit -n)";
    case SHOAL_E_WRITE_FAILED:
    case -EIO:
        return "; look at the kernel's log and at the device";
    default:
        return "";
    }
}

int access_status(int code)
{
    return code == SHOAL_E_CORRUPT ? STATUS_DAMAGE : STATUS_FAILED;
}

/* shoal_open's text says why and what to do, and mostly where. */
int access_refused(
    const struct command_help *help, const char *dir, const struct shoal_error *error)
{
    char place[1024], shown[2048];
    if (!error->text[0])
        snprintf(place, sizeof place, "%s: %s%s", dir, shoal_strerror(error->code),
            access_advice(error->code));
    else if (strstr(error->text, dir))
        snprintf(place, sizeof place, "%s", error->text);
    else
        snprintf(place, sizeof place, "%s%s%s: %s", dir, error->file[0] ? "/" : "", error->file,
            error->text);
    complain(help->name, "%s", escape(place, strlen(place), shown, sizeof shown));
    return access_status(error->code);
}

int access_open(const struct command_help *help, const char *data, enum access_use use,
    struct shoal **ret_store)
{
    struct shoal_error error;
    const char *dir = access_dir(help, data);
    if (!dir)
        return STATUS_USAGE;
    if (access_try(dir, use, ret_store, &error) < 0)
        return access_refused(help, dir, &error);
    return 0;
}

int access_close(const struct command_help *help, struct shoal *store, int status)
{
    int code = shoal_close(store);
    /* After a failure, closing fails for the same reason, which has been said. */
    if (code == 0 || status != STATUS_DONE)
        return status;
    complain(help->name, "closing the store: %s%s", shoal_strerror(code), access_advice(code));
    return access_status(code);
}

int access_failed(const struct command_help *help, const char *bucket, const void *key,
    size_t key_length, int code)
{
    char shown[ESCAPED_BYTES(SHOAL_KEY_MAX)];
    escape(key, key ? key_length : 0, shown, sizeof shown);
    complain(help->name, "%s%s%s: %s%s", bucket, key ? "/" : "", shown, shoal_strerror(code),
        access_advice(code));
    return access_status(code);
}

int access_ensure_bucket(struct shoal *store, const char *bucket)
{
    struct shoal_bucket found;
    int code = shoal_bucket_stat(store, bucket, &found);
    if (code == SHOAL_E_NO_BUCKET)
        code = shoal_bucket_create(store, bucket, false);
    return code == SHOAL_E_EXISTS ? 0 : code;
}
