/* Capital letters drawn as strokes, for titles. */
#ifndef DEMO_LETTERING_H
#define DEMO_LETTERING_H

#include "canvas.h"

/* How a line of text looks: sizes are in pixels. */
struct lettering {
    float height; /* of a capital */
    float stretch; /* width against the natural one */
    float spacing; /* between letters */
    float thickness; /* of a stroke */
};

/* Letters, digits, space and . - ' are known; others are blank. */
float text_width(const struct lettering *style, const char *text);
/* The line's left edge and the letters' top are at the point. */
void draw_text(struct canvas *canvas, struct point at, const struct lettering *style,
    const char *text, struct colour colour, float alpha);

#endif
