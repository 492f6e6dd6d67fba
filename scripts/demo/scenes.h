/* The pictures behind the titles. */
#ifndef DEMO_SCENES_H
#define DEMO_SCENES_H

#include "canvas.h"

struct palette {
    struct colour sky_top, sky_middle, sky_low;
    struct colour dark, accent, light;
};

typedef void scene_fn(struct canvas *canvas, struct chance *chance, const struct palette *palette);

struct scene {
    const char *name; /* also the folder of its pictures */
    scene_fn *draw;
};

extern const struct scene scenes[];
extern const int scene_count;

/* One of the colour schemes, a little shifted. */
void palette_choose(struct chance *chance, struct palette *ret_palette);

#endif
