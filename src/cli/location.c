/* Splitting BUCKET/KEY at its first slash.

   Whatever follows that slash is the key, byte for byte: `demo//a` names the key `/a`, and `.` and
   `..` mean nothing. A bucket name that can't exist and a key that can't be stored are errors of
   the command line (status 2), found before the store is touched. */
#include "cli/location.h"

#include <string.h>

#include "cli/options.h"
#include "cli/output.h"

static int split(const struct command_help *help, const char *argument, struct location *location)
{
    size_t length = strcspn(argument, "/");
    char shown[160];
    if (length <= SHOAL_BUCKET_MAX) {
        memcpy(location->bucket, argument, length);
        location->bucket[length] = 0;
    }
    if (length > SHOAL_BUCKET_MAX || !shoal_bucket_name_valid(location->bucket))
        return options_wrong(help,
            "%s: not a legal bucket name: use 3 to 63 of a-z, 0-9, '.' and '-', with a letter or "
            "digit at both ends",
            escape(argument, length, shown, sizeof shown));
    location->key = argument + length + (argument[length] == '/');
    location->key_length = strlen(location->key);
    if (location->key_length > SHOAL_KEY_MAX)
        return options_wrong(help, "%s: the key has %zu bytes, the limit is %d",
            escape(argument, strlen(argument), shown, sizeof shown), location->key_length,
            SHOAL_KEY_MAX);
    return 0;
}

int location_parse_prefix(
    const struct command_help *help, const char *argument, struct location *ret_location)
{
    struct location location;
    int status = split(help, argument, &location);
    if (status == 0)
        *ret_location = location;
    return status;
}

int location_parse_object(
    const struct command_help *help, const char *argument, struct location *ret_location)
{
    struct location location;
    char shown[160];
    int status = split(help, argument, &location);
    if (status)
        return status;
    if (location.key_length == 0)
        return options_wrong(help, "%s: the key is empty: write BUCKET/KEY",
            escape(argument, strlen(argument), shown, sizeof shown));
    *ret_location = location;
    return 0;
}
