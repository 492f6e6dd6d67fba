/* Makes the pictures of `make run`: demo-pictures FOLDER COUNT
 *
 * Each is a poster of 300 by 450 pixels, about 40 KB as a JPEG, drawn from its number alone: a
 * scene, a palette, a title of words that go together, a small line at the foot. Numbers are shared
 * out among as many threads as there are cores. Writing goes to FOLDER/SCENE/TITLE-NUMBER.jpg; a
 * file that can't be written ends the program with the reason and status 1.
 */
#include "canvas.h"
#include "lettering.h"
#include "scenes.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#define WIDTH       300
#define HEIGHT      450
#define TITLE_WORDS 4
#define TITLE_MAX   64
#define THREADS_MAX 16

static const char *const adjectives[] = {"SILENT", "BROKEN", "GOLDEN", "HOLLOW", "CRIMSON",
    "DISTANT", "FROZEN", "HIDDEN", "ELECTRIC", "PAPER", "VELVET", "RESTLESS", "SECOND", "INVISIBLE",
    "BURNING", "WANDERING", "LAST", "MIDNIGHT", "GENTLE", "LONELY", "GLASS", "WILD", "FORGOTTEN",
    "QUIET", "BRIGHT", "FALLING", "IRON", "SILVER", "DROWNED", "ENDLESS", "NORTHERN", "TENDER"};
static const char *const nouns[] = {"HARBOR", "ORCHARD", "SIGNAL", "GARDEN", "LANTERN", "TIDE",
    "HORIZON", "MIRROR", "EMPIRE", "RIVER", "CARNIVAL", "WINTER", "STATION", "ISLAND", "COMPASS",
    "SUMMER", "MACHINE", "SHADOW", "PASSAGE", "MOUNTAIN", "LIGHTHOUSE", "DESERT", "ENGINE",
    "LETTER", "VOYAGE", "KINGDOM", "ECHO", "METEOR", "ANCHOR", "FOREST", "AVENUE", "SPARROW",
    "THUNDER", "CATHEDRAL", "OCEAN", "PROMISE", "CITY", "HARVEST", "CURRENT", "FROST"};
static const char *const feet[] = {"COMING SOON", "IN ALL THEATRES", "A FILM IN FOUR PARTS",
    "NOTHING STAYS BELOW", "EVERY ROAD ENDS HERE", "THE WAIT IS OVER", "THIS AUTUMN",
    "FIND YOUR WAY BACK", "SOME DOORS STAY OPEN", "ONLY THE SEA REMEMBERS"};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

struct title {
    char lines[TITLE_WORDS][16]; /* a word or two each */
    int count;
};

static void title_add(struct title *title, const char *word)
{
    snprintf(title->lines[title->count++], sizeof(title->lines[0]), "%s", word);
}

static void title_choose(struct chance *chance, struct title *title)
{
    const char *adjective = adjectives[chance_below(chance, COUNT(adjectives))];
    int first = chance_below(chance, COUNT(nouns));
    int second = (first + 1 + chance_below(chance, COUNT(nouns) - 1)) % COUNT(nouns);
    title->count = 0;
    switch (chance_below(chance, 5)) {
    case 0:
        title_add(title, "THE");
        /* fall through */
    case 1:
        title_add(title, adjective);
        title_add(title, nouns[first]);
        break;
    case 2:
        title_add(title, nouns[first]);
        title_add(title, "OF THE");
        title_add(title, nouns[second]);
        break;
    case 3:
        title_add(title, "BEYOND THE");
        title_add(title, nouns[first]);
        break;
    default:
        title_add(title, strchr("AEIO", adjective[0]) != NULL ? "AN" : "A");
        title_add(title, adjective);
        title_add(title, nouns[first]);
    }
}

/* Every line is stretched to the same width, small words get a thin one of their own. */
static float title_line(struct canvas *canvas, struct point at, float width, float weight,
    const char *line, struct colour colour)
{
    bool small = strlen(line) < 4 || strchr(line, ' ') != NULL;
    struct lettering style = {.height = small ? 9 : 24, .stretch = 1, .spacing = small ? 7 : 6};
    float natural = text_width(&style, line);
    if (!small) {
        float scale = width / natural;
        style.height = fminf(46, 24 * scale);
        style.spacing *= scale;
        style.stretch = (width - style.spacing * (float)(strlen(line) - 1)) /
                        ((natural - 6 * (float)(strlen(line) - 1)) * style.height / 24);
    }
    style.thickness = small ? 1.6f : style.height * weight;
    at.x += (width - text_width(&style, line)) / 2;
    struct point shadow = {at.x + 1.5f, at.y + 1.5f};
    draw_text(canvas, shadow, &style, line, (struct colour){0, 0, 0}, 0.45f);
    draw_text(canvas, at, &style, line, colour, 1);
    return style.height;
}

static void draw_title(struct canvas *canvas, struct chance *chance, const struct palette *palette,
    const struct title *title)
{
    float width = chance_range(chance, 190, 250), weight = chance_range(chance, 0.07f, 0.21f);
    struct colour colour = chance_below(chance, 3) == 0 ? palette->accent : palette->light;
    struct point at = {(WIDTH - width) / 2, chance_below(chance, 3) == 0 ? 30
                                            : title->count > 2           ? 270
                                                                         : 296};
    if (at.y > HEIGHT / 2) { /* darken the ground that the letters stand on */
        for (int y = 250; y < HEIGHT; y++)
            draw_box(canvas, 0, (float)y, WIDTH, 1, palette->dark,
                0.8f * fminf(1, (float)(y - 250) / 110));
    } else {
        for (int y = 0; y < 190; y++)
            draw_box(canvas, 0, (float)y, WIDTH, 1, palette->dark, 0.7f * (1 - (float)y / 190));
    }
    for (int i = 0; i < title->count; i++)
        at.y += title_line(canvas, at, width, weight, title->lines[i], colour) + 11;
}

static void draw_foot(
    struct canvas *canvas, struct chance *chance, const struct palette *palette, unsigned number)
{
    char text[64];
    for (int y = 380; y < HEIGHT; y++)
        draw_box(canvas, 0, (float)y, WIDTH, 1, palette->dark, 0.75f * (float)(y - 380) / 70);
    struct lettering small = {.height = 6, .stretch = 0.9f, .spacing = 3.2f, .thickness = 1.1f};
    snprintf(text, sizeof(text), "%s", feet[chance_below(chance, COUNT(feet))]);
    struct point at = {(WIDTH - text_width(&small, text)) / 2, 420};
    draw_text(canvas, at, &small, text, palette->light, 0.9f);
    snprintf(text, sizeof(text), "NO. %04u", number);
    small.height = 4.6f;
    small.thickness = 0.9f;
    at = (struct point){(WIDTH - text_width(&small, text)) / 2, 433};
    draw_text(canvas, at, &small, text, palette->light, 0.6f);
}

static void canvas_to_bytes(const struct canvas *canvas, unsigned char *bytes)
{
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        const float parts[3] = {canvas->pixels[i].r, canvas->pixels[i].g, canvas->pixels[i].b};
        for (int c = 0; c < 3; c++)
            bytes[3 * i + c] = (unsigned char)fminf(255, fmaxf(0, parts[c] * 255 + 0.5f));
    }
}

/* *ret_data is freed with free(). libjpeg ends the program itself when it is out of memory. */
static void encode(
    unsigned char *bytes, int quality, unsigned char **ret_data, unsigned long *ret_size)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, ret_data, ret_size);
    jpeg.image_width = WIDTH;
    jpeg.image_height = HEIGHT;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < HEIGHT) {
        JSAMPROW row = bytes + (size_t)jpeg.next_scanline * WIDTH * 3;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
}

/* Looks for the quality that brings the file near its size: posters differ in detail. */
static void encode_to_size(
    unsigned char *bytes, unsigned long wanted, unsigned char **ret_data, unsigned long *ret_size)
{
    int low = 60, high = 97;
    for (;;) {
        int quality = (low + high) / 2;
        encode(bytes, quality, ret_data, ret_size);
        if (high - low < 2 || labs((long)*ret_size - (long)wanted) < (long)wanted / 12)
            return;
        if (*ret_size < wanted)
            low = quality;
        else
            high = quality;
        free(*ret_data);
        *ret_data = NULL;
        *ret_size = 0;
    }
}

static int write_file(const char *path, const unsigned char *data, unsigned long size)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return -errno;
    int code = fwrite(data, 1, size, file) == size ? 0 : -errno;
    if (fclose(file) != 0 && code == 0)
        code = -errno;
    return code;
}

static void file_name(char *name, size_t size, const char *folder, const char *scene,
    const struct title *title, unsigned number)
{
    int used = snprintf(name, size, "%s/%s/", folder, scene);
    for (int i = 0; i < title->count && used < (int)size - TITLE_MAX; i++)
        used += snprintf(name + used, size - (size_t)used, "%s-", title->lines[i]);
    snprintf(name + used, size - (size_t)used, "%04u.jpg", number);
    for (char *c = name + strlen(folder); *c != '\0'; c++)
        *c = *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
}

struct job {
    const char *folder;
    unsigned count;
    atomic_uint next;
    atomic_bool failed;
};

static int make_picture(
    struct canvas *canvas, unsigned char *bytes, const char *folder, unsigned number)
{
    struct chance chance = {number * 7919ull};
    struct palette palette;
    struct title title;
    const struct scene *scene = &scenes[chance_below(&chance, scene_count)];
    palette_choose(&chance, &palette);
    title_choose(&chance, &title);
    scene->draw(canvas, &chance, &palette);
    draw_title(canvas, &chance, &palette, &title);
    draw_foot(canvas, &chance, &palette, number);
    finish_vignette(canvas, 0.55f);
    finish_grain(canvas, &chance, 0.022f);
    canvas_to_bytes(canvas, bytes);

    char path[4096];
    unsigned char *data = NULL;
    unsigned long size = 0;
    encode_to_size(bytes, 32000 + chance_next(&chance) % 16000, &data, &size);
    file_name(path, sizeof(path), folder, scene->name, &title, number);
    int code = write_file(path, data, size);
    free(data);
    if (code < 0)
        fprintf(stderr, "demo-pictures: %s: %s\n", path, strerror(-code));
    return code;
}

static void *worker(void *arg)
{
    struct job *job = arg;
    struct canvas canvas;
    unsigned char *bytes = malloc(WIDTH * HEIGHT * 3);
    if (canvas_init(&canvas, WIDTH, HEIGHT) < 0 || bytes == NULL) {
        fprintf(stderr, "demo-pictures: out of memory\n");
        atomic_store(&job->failed, true);
    }
    while (!atomic_load(&job->failed)) {
        unsigned number = atomic_fetch_add(&job->next, 1);
        if (number > job->count)
            break;
        if (make_picture(&canvas, bytes, job->folder, number) < 0)
            atomic_store(&job->failed, true);
    }
    canvas_done(&canvas);
    free(bytes);
    return NULL;
}

static int make_folders(const char *folder)
{
    char path[4096];
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return -errno;
    for (int i = 0; i < scene_count; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, scenes[i].name);
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

int main(int argc, char **argv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores, started = 0;
    pthread_t ids[THREADS_MAX];
    unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (count == 0 || count > 1000000) {
        fprintf(stderr, "usage: demo-pictures FOLDER COUNT\n");
        return 2;
    }
    struct job job = {.folder = argv[1], .count = (unsigned)count, .next = 1};
    int code = make_folders(argv[1]);
    if (code < 0) {
        fprintf(stderr, "demo-pictures: %s: %s\n", argv[1], strerror(-code));
        return 1;
    }
    while (started < threads && pthread_create(&ids[started], NULL, worker, &job) == 0)
        started++;
    if (started == 0)
        worker(&job);
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    return atomic_load(&job.failed) ? 1 : 0;
}
