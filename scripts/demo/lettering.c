/* A stroke font.
 *
 * A glyph is a list of pen movements on a grid where a capital is 24 units high: M x y lifts the
 * pen to a place, L x y draws a line, A cx cy rx ry from to draws an arc between two angles in
 * units of 10 degrees, clockwise from the right when rising. Text is drawn into the canvas' mask
 * first, so that strokes which cross do not add up, and then coloured once.
 */
#include "lettering.h"

#include <math.h>
#include <string.h>

enum pen { END, M, L, A };

struct glyph {
    char letter;
    signed char width;
    signed char pen[40];
};

static const struct glyph glyphs[] = {
    {' ', 10, {END}},
    {'.', 1, {M, 0, 24, L, 1, 24, END}},
    {'-', 9, {M, 0, 13, L, 9, 13, END}},
    {'\'', 1, {M, 1, 0, L, 0, 5, END}},
    {'A', 18, {M, 0, 24, L, 9, 0, L, 18, 24, M, 3, 16, L, 15, 16, END}},
    {'B', 16,
        {M, 0, 12, L, 0, 0, L, 9, 0, A, 9, 6, 6, 6, -9, 9, L, 0, 12, L, 0, 24, L, 9, 24, A, 9, 18,
            7, 6, 9, -9, END}},
    {'C', 17, {A, 10, 12, 10, 12, -5, -31, END}},
    {'D', 17, {M, 0, 0, L, 0, 24, L, 6, 24, A, 6, 12, 11, 12, 9, -9, L, 0, 0, END}},
    {'E', 13, {M, 13, 0, L, 0, 0, L, 0, 24, L, 13, 24, M, 0, 12, L, 11, 12, END}},
    {'F', 13, {M, 13, 0, L, 0, 0, L, 0, 24, M, 0, 12, L, 11, 12, END}},
    {'G', 20, {A, 10, 12, 10, 12, -5, -36, L, 12, 12, END}},
    {'H', 17, {M, 0, 0, L, 0, 24, M, 17, 0, L, 17, 24, M, 0, 12, L, 17, 12, END}},
    {'I', 0, {M, 0, 0, L, 0, 24, END}},
    {'J', 10, {M, 10, 0, L, 10, 18, A, 5, 18, 5, 6, 0, 16, END}},
    {'K', 15, {M, 0, 0, L, 0, 24, M, 14, 0, L, 0, 14, M, 5, 9, L, 15, 24, END}},
    {'L', 12, {M, 0, 0, L, 0, 24, L, 12, 24, END}},
    {'M', 20, {M, 0, 24, L, 0, 0, L, 10, 16, L, 20, 0, L, 20, 24, END}},
    {'N', 17, {M, 0, 24, L, 0, 0, L, 17, 24, L, 17, 0, END}},
    {'O', 22, {A, 11, 12, 11, 12, 0, 36, END}},
    {'P', 15, {M, 0, 24, L, 0, 0, L, 8, 0, A, 8, 7, 7, 7, -9, 9, L, 0, 14, END}},
    {'Q', 22, {A, 11, 12, 11, 12, 0, 36, M, 13, 17, L, 21, 25, END}},
    {'R', 15,
        {M, 0, 24, L, 0, 0, L, 8, 0, A, 8, 7, 7, 7, -9, 9, L, 0, 14, M, 7, 14, L, 15, 24, END}},
    {'S', 15, {A, 7, 6, 7, 6, -3, -27, A, 7, 18, 8, 6, -9, 15, END}},
    {'T', 16, {M, 0, 0, L, 16, 0, M, 8, 0, L, 8, 24, END}},
    {'U', 16, {M, 0, 0, L, 0, 15, A, 8, 15, 8, 9, 18, 0, L, 16, 0, END}},
    {'V', 18, {M, 0, 0, L, 9, 24, L, 18, 0, END}},
    {'W', 26, {M, 0, 0, L, 7, 24, L, 13, 4, L, 19, 24, L, 26, 0, END}},
    {'X', 16, {M, 0, 0, L, 16, 24, M, 16, 0, L, 0, 24, END}},
    {'Y', 16, {M, 0, 0, L, 8, 12, L, 16, 0, M, 8, 12, L, 8, 24, END}},
    {'Z', 15, {M, 0, 0, L, 15, 0, L, 0, 24, L, 15, 24, END}},
    {'0', 16, {A, 8, 12, 8, 12, 0, 36, END}},
    {'1', 6, {M, 0, 5, L, 6, 0, L, 6, 24, END}},
    {'2', 15, {A, 7, 7, 7, 7, -17, 3, L, 0, 24, L, 15, 24, END}},
    {'3', 15, {A, 7, 6, 7, 6, -16, 9, A, 7, 18, 8, 6, -9, 16, END}},
    {'4', 16, {M, 12, 24, L, 12, 0, L, 0, 17, L, 16, 17, END}},
    {'5', 14, {M, 13, 0, L, 2, 0, L, 1, 11, A, 6, 16, 8, 8, -13, 14, END}},
    {'6', 16, {A, 8, 17, 8, 7, 18, -18, A, 14, 17, 14, 17, 18, 26, END}},
    {'7', 15, {M, 0, 0, L, 15, 0, L, 5, 24, END}},
    {'8', 16, {A, 8, 6, 7, 6, 0, 36, M, 16, 18, A, 8, 18, 8, 6, 0, 36, END}},
    {'9', 16, {A, 8, 7, 8, 7, 0, 36, A, 2, 7, 14, 17, 0, 8, END}},
};

static const struct glyph *glyph_of(char letter)
{
    for (size_t i = 0; i < sizeof(glyphs) / sizeof(glyphs[0]); i++)
        if (glyphs[i].letter == letter)
            return &glyphs[i];
    return &glyphs[0];
}

float text_width(const struct lettering *style, const char *text)
{
    float unit = style->height / 24 * style->stretch, width = 0;
    for (; *text != '\0'; text++)
        width += (float)glyph_of(*text)->width * unit + (text[1] != '\0' ? style->spacing : 0);
    return width;
}

static void cover_stroke(struct canvas *canvas, struct point from, struct point to, float thickness)
{
    int left = (int)(fminf(from.x, to.x) - thickness),
        right = (int)(fmaxf(from.x, to.x) + thickness);
    int top = (int)(fminf(from.y, to.y) - thickness), low = (int)(fmaxf(from.y, to.y) + thickness);
    float dx = to.x - from.x, dy = to.y - from.y, square = dx * dx + dy * dy;
    for (int y = top < 0 ? 0 : top; y <= low && y < canvas->height; y++)
        for (int x = left < 0 ? 0 : left; x <= right && x < canvas->width; x++) {
            float px = (float)x + 0.5f - from.x, py = (float)y + 0.5f - from.y;
            float along = square > 0 ? (px * dx + py * dy) / square : 0;
            along = along < 0 ? 0 : along > 1 ? 1 : along;
            float part = thickness / 2 - hypotf(px - along * dx, py - along * dy) + 0.5f;
            float *mask = &canvas->mask[y * canvas->width + x];
            *mask = fmaxf(*mask, part > 1 ? 1 : part);
        }
}

struct hand {
    struct canvas *canvas;
    const struct lettering *style;
    struct point origin, at;
    bool down; /* the pen has drawn here already */
};

static void hand_go(struct hand *hand, float x, float y, bool draw)
{
    float unit = hand->style->height / 24;
    struct point to = {hand->origin.x + x * unit * hand->style->stretch, hand->origin.y + y * unit};
    if (draw)
        cover_stroke(hand->canvas, hand->at, to, hand->style->thickness);
    hand->at = to;
    hand->down = draw;
}

static void hand_arc(struct hand *hand, const signed char *arc)
{
    const float degrees = 3.14159265f / 180;
    float from = (float)arc[4] * 10, to = (float)arc[5] * 10;
    for (int i = 0; i <= 24; i++) {
        float angle = (from + (to - from) * (float)i / 24) * degrees;
        hand_go(hand, (float)arc[0] + (float)arc[2] * cosf(angle),
            (float)arc[1] + (float)arc[3] * sinf(angle), i > 0 || hand->down);
    }
}

static void hand_glyph(struct hand *hand, const struct glyph *glyph)
{
    hand->down = false;
    for (const signed char *pen = glyph->pen; *pen != END;) {
        if (*pen == A) {
            hand_arc(hand, pen + 1);
            pen += 7;
        } else {
            hand_go(hand, pen[1], pen[2], *pen == L);
            pen += 3;
        }
    }
}

void draw_text(struct canvas *canvas, struct point at, const struct lettering *style,
    const char *text, struct colour colour, float alpha)
{
    struct hand hand = {.canvas = canvas, .style = style, .origin = at};
    memset(canvas->mask, 0, sizeof(*canvas->mask) * (size_t)canvas->width * (size_t)canvas->height);
    for (; *text != '\0'; text++) {
        const struct glyph *glyph = glyph_of(*text);
        hand_glyph(&hand, glyph);
        hand.origin.x += (float)glyph->width * style->height / 24 * style->stretch + style->spacing;
    }
    for (int y = 0; y < canvas->height; y++)
        for (int x = 0; x < canvas->width; x++)
            draw_pixel(canvas, x, y, colour, alpha * canvas->mask[y * canvas->width + x]);
}
