/* Runs a fuzz target on every file of the folders given, and on a fixed number of mutations of
   each, so that the corpus is a test in every build. Prints `N passed, N failed`; a failure is an
   abort, and the name printed before it says where. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX (1u << 20)
#define MUTATIONS 2000

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static uint32_t random_next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Bytes that parsers look for come up more often than others. */
static uint8_t random_byte(uint32_t *state)
{
    static const char special[] = "\r\n\t :;,/%?=\"*-+0123456789abcdefHTTP\0";
    uint32_t value = random_next(state);

    return value & 1 ? (uint8_t)(value >> 8) : (uint8_t)special[(value >> 8) % sizeof(special)];
}

static size_t mutate(uint8_t *bytes, size_t size, uint32_t *state)
{
    for (unsigned i = 1 + random_next(state) % 4; i > 0; i--) {
        size_t at = size > 0 ? random_next(state) % size : 0;

        switch (random_next(state) % 4) {
        case 0: /* insert */
            if (size < INPUT_MAX) {
                memmove(bytes + at + 1, bytes + at, size - at);
                bytes[at] = random_byte(state);
                size++;
            }
            break;
        case 1: /* remove */
            if (size > 0) {
                memmove(bytes + at, bytes + at + 1, size - at - 1);
                size--;
            }
            break;
        case 2: /* cut */
            if (random_next(state) % 8 == 0)
                size = at;
            break;
        default:
            if (size > 0)
                bytes[at] = random_byte(state);
            break;
        }
    }
    return size;
}

static int run_file(const char *folder, const char *name)
{
    static uint8_t bytes[INPUT_MAX + 1], mutated[INPUT_MAX + 1];
    char path[4096];
    uint32_t state = 88172645;
    size_t size;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    size = fread(bytes, 1, INPUT_MAX, file);
    fclose(file);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(bytes, size);
    for (unsigned i = 0; i < MUTATIONS; i++) {
        memcpy(mutated, bytes, size);
        LLVMFuzzerTestOneInput(mutated, mutate(mutated, size, &state));
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned passed = 0, failed = 0;

    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        struct dirent *entry;

        if (dir == NULL) {
            failed++;
            continue;
        }
        while ((entry = readdir(dir)) != NULL) {
            if (entry->d_name[0] == '.')
                continue;
            if (run_file(argv[i], entry->d_name) == 0)
                passed++;
            else
                failed++;
        }
        closedir(dir);
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
