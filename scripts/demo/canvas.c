/* Drawing for the demo's posters.
 *
 * A picture is an array of float colours; every shape computes how much of each pixel it covers and
 * mixes its colour in by that share, so all edges are smooth. Polygons are filled by scanline with
 * four lines a pixel; circles and lines by their distance. Nothing here can fail but the one
 * allocation; drawing outside the picture is cut off.
 */
#include "canvas.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t chance_next(struct chance *chance)
{
    uint64_t z = chance->state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

float chance_range(struct chance *chance, float low, float high)
{
    return low + (high - low) * (float)(chance_next(chance) >> 8) / 16777216.0f;
}

int chance_below(struct chance *chance, int limit)
{
    return (int)(chance_next(chance) % (uint32_t)limit);
}

int canvas_init(struct canvas *canvas, int width, int height)
{
    size_t count = (size_t)width * (size_t)height;
    canvas->width = width;
    canvas->height = height;
    canvas->pixels = calloc(count, sizeof(*canvas->pixels));
    canvas->mask = calloc(count, sizeof(*canvas->mask));
    if (canvas->pixels == NULL || canvas->mask == NULL) {
        canvas_done(canvas);
        return -ENOMEM;
    }
    return 0;
}

void canvas_done(struct canvas *canvas)
{
    free(canvas->pixels);
    free(canvas->mask);
    memset(canvas, 0, sizeof(*canvas));
}

struct colour colour_hex(uint32_t rgb)
{
    return (struct colour){
        (float)(rgb >> 16 & 255) / 255, (float)(rgb >> 8 & 255) / 255, (float)(rgb & 255) / 255};
}

struct colour colour_mix(struct colour a, struct colour b, float part)
{
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    return (struct colour){
        a.r + (b.r - a.r) * part, a.g + (b.g - a.g) * part, a.b + (b.b - a.b) * part};
}

static float lattice(uint32_t seed, int x, int y)
{
    uint32_t h = seed ^ (uint32_t)x * 0x85ebca6bu ^ (uint32_t)y * 0xc2b2ae35u;
    h = (h ^ (h >> 15)) * 0x2c1b3c6du;
    h = (h ^ (h >> 12)) * 0x297a2d39u;
    return (float)((h ^ (h >> 15)) & 0xffff) / 32767.5f - 1;
}

static float smooth(float t)
{
    return t * t * (3 - 2 * t);
}

float noise_2d(uint32_t seed, float x, float y)
{
    int column = (int)floorf(x), row = (int)floorf(y);
    float u = smooth(x - (float)column), v = smooth(y - (float)row);
    float top = lattice(seed, column, row) * (1 - u) + lattice(seed, column + 1, row) * u;
    float low = lattice(seed, column, row + 1) * (1 - u) + lattice(seed, column + 1, row + 1) * u;
    return top * (1 - v) + low * v;
}

float noise_1d(uint32_t seed, float x)
{
    return noise_2d(seed, x, 0);
}

float noise_hills(uint32_t seed, float x, int octaves)
{
    float sum = 0, weight = 0.5f;
    for (int i = 0; i < octaves; i++, weight /= 2, x *= 2)
        sum += weight * noise_1d(seed + (uint32_t)i, x);
    return sum;
}

float noise_clouds(uint32_t seed, float x, float y, int octaves)
{
    float sum = 0, weight = 0.5f;
    for (int i = 0; i < octaves; i++, weight /= 2, x *= 2, y *= 2)
        sum += weight * noise_2d(seed + (uint32_t)i, x, y);
    return sum;
}

void draw_pixel(struct canvas *canvas, int x, int y, struct colour colour, float alpha)
{
    if (x < 0 || y < 0 || x >= canvas->width || y >= canvas->height || alpha <= 0)
        return;
    struct colour *pixel = &canvas->pixels[y * canvas->width + x];
    *pixel = colour_mix(*pixel, colour, alpha);
}

void draw_gradient(
    struct canvas *canvas, struct colour top, struct colour middle, struct colour bottom)
{
    for (int y = 0; y < canvas->height; y++) {
        float part = (float)y / (float)canvas->height * 2;
        struct colour colour =
            part < 1 ? colour_mix(top, middle, part) : colour_mix(middle, bottom, part - 1);
        for (int x = 0; x < canvas->width; x++)
            canvas->pixels[y * canvas->width + x] = colour;
    }
}

/* The rows and columns that a shape can touch. */
struct bounds {
    int left, top, right, bottom;
};

static struct bounds bounds_of(const struct canvas *canvas, float x0, float y0, float x1, float y1)
{
    struct bounds b = {
        (int)floorf(x0) - 1, (int)floorf(y0) - 1, (int)ceilf(x1) + 2, (int)ceilf(y1) + 2};
    b.left = b.left < 0 ? 0 : b.left;
    b.top = b.top < 0 ? 0 : b.top;
    b.right = b.right > canvas->width ? canvas->width : b.right;
    b.bottom = b.bottom > canvas->height ? canvas->height : b.bottom;
    return b;
}

static float clamp_unit(float value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

void draw_circle(struct canvas *canvas, struct point centre, float radius, float soft,
    struct colour colour, float alpha)
{
    float reach = radius + soft;
    struct bounds b =
        bounds_of(canvas, centre.x - reach, centre.y - reach, centre.x + reach, centre.y + reach);
    for (int y = b.top; y < b.bottom; y++)
        for (int x = b.left; x < b.right; x++) {
            float distance = hypotf((float)x + 0.5f - centre.x, (float)y + 0.5f - centre.y);
            draw_pixel(canvas, x, y, colour, alpha * clamp_unit((radius - distance) / soft + 0.5f));
        }
}

void draw_ring(struct canvas *canvas, struct point centre, float radius, float thickness,
    struct colour colour, float alpha)
{
    float reach = radius + thickness;
    struct bounds b =
        bounds_of(canvas, centre.x - reach, centre.y - reach, centre.x + reach, centre.y + reach);
    for (int y = b.top; y < b.bottom; y++)
        for (int x = b.left; x < b.right; x++) {
            float distance = hypotf((float)x + 0.5f - centre.x, (float)y + 0.5f - centre.y);
            float inside = thickness / 2 - fabsf(distance - radius);
            draw_pixel(canvas, x, y, colour, alpha * clamp_unit(inside + 0.5f));
        }
}

void draw_glow(
    struct canvas *canvas, struct point centre, float radius, struct colour colour, float alpha)
{
    struct bounds b = bounds_of(
        canvas, centre.x - radius, centre.y - radius, centre.x + radius, centre.y + radius);
    for (int y = b.top; y < b.bottom; y++)
        for (int x = b.left; x < b.right; x++) {
            float distance = hypotf((float)x + 0.5f - centre.x, (float)y + 0.5f - centre.y);
            float near = clamp_unit(1 - distance / radius);
            draw_pixel(canvas, x, y, colour, alpha * near * near);
        }
}

static float distance_to_line(struct point p, struct point from, struct point to)
{
    float dx = to.x - from.x, dy = to.y - from.y;
    float square = dx * dx + dy * dy;
    float along = square > 0 ? ((p.x - from.x) * dx + (p.y - from.y) * dy) / square : 0;
    along = clamp_unit(along);
    return hypotf(p.x - from.x - along * dx, p.y - from.y - along * dy);
}

void draw_line(struct canvas *canvas, struct point from, struct point to, float thickness,
    struct colour colour, float alpha)
{
    struct bounds b =
        bounds_of(canvas, fminf(from.x, to.x) - thickness, fminf(from.y, to.y) - thickness,
            fmaxf(from.x, to.x) + thickness, fmaxf(from.y, to.y) + thickness);
    for (int y = b.top; y < b.bottom; y++)
        for (int x = b.left; x < b.right; x++) {
            struct point p = {(float)x + 0.5f, (float)y + 0.5f};
            float inside = thickness / 2 - distance_to_line(p, from, to);
            draw_pixel(canvas, x, y, colour, alpha * clamp_unit(inside + 0.5f));
        }
}

/* Adds a quarter of the part of each pixel in row y that lies between two edges. */
static void cover_span(struct canvas *canvas, int y, float from, float to)
{
    from = fmaxf(from, 0);
    to = fminf(to, (float)canvas->width);
    for (int x = (int)from; x < canvas->width && (float)x < to; x++) {
        float part = fminf(to, (float)x + 1) - fmaxf(from, (float)x);
        if (part > 0)
            canvas->mask[y * canvas->width + x] += part / 4;
    }
}

#define CROSSINGS_MAX 32

static int crossings(const struct point *corners, int count, float y, float *ret_x)
{
    int found = 0;
    for (int i = 0; i < count && found < CROSSINGS_MAX; i++) {
        struct point a = corners[i], b = corners[(i + 1) % count];
        if ((a.y <= y) == (b.y <= y))
            continue;
        float x = a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x);
        int at = found++;
        for (; at > 0 && ret_x[at - 1] > x; at--)
            ret_x[at] = ret_x[at - 1];
        ret_x[at] = x;
    }
    return found;
}

void draw_polygon(struct canvas *canvas, const struct point *corners, int count,
    struct colour colour, float alpha)
{
    float top = corners[0].y, bottom = corners[0].y, x[CROSSINGS_MAX];
    for (int i = 1; i < count; i++) {
        top = fminf(top, corners[i].y);
        bottom = fmaxf(bottom, corners[i].y);
    }
    struct bounds b = bounds_of(canvas, 0, top, (float)canvas->width, bottom);
    for (int y = b.top; y < b.bottom; y++) {
        float *row = &canvas->mask[y * canvas->width];
        memset(row, 0, sizeof(*row) * (size_t)canvas->width);
        for (int line = 0; line < 4; line++) {
            int found = crossings(corners, count, (float)y + 0.125f + (float)line / 4, x);
            for (int i = 0; i + 1 < found; i += 2)
                cover_span(canvas, y, x[i], x[i + 1]);
        }
        for (int column = 0; column < canvas->width; column++)
            draw_pixel(canvas, column, y, colour, alpha * row[column]);
    }
}

void draw_box(
    struct canvas *canvas, float x, float y, float w, float h, struct colour colour, float alpha)
{
    struct point corners[4] = {{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}};
    draw_polygon(canvas, corners, 4, colour, alpha);
}

void draw_below(struct canvas *canvas, curve_fn *curve, const void *arg, struct colour top,
    struct colour bottom, float depth, float alpha)
{
    for (int x = 0; x < canvas->width; x++) {
        float edge = curve(arg, (float)x);
        for (int y = edge < 0 ? 0 : (int)edge; y < canvas->height; y++) {
            float below = (float)y - edge;
            struct colour colour = colour_mix(top, bottom, below / depth);
            draw_pixel(canvas, x, y, colour, alpha * clamp_unit(below + 1));
        }
    }
}

void finish_vignette(struct canvas *canvas, float strength)
{
    float half_w = (float)canvas->width / 2, half_h = (float)canvas->height / 2;
    struct colour black = {0, 0, 0};
    for (int y = 0; y < canvas->height; y++)
        for (int x = 0; x < canvas->width; x++) {
            float away = hypotf(((float)x - half_w) / half_w, ((float)y - half_h) / half_h);
            draw_pixel(canvas, x, y, black, strength * clamp_unit(away - 0.55f));
        }
}

void finish_grain(struct canvas *canvas, struct chance *chance, float strength)
{
    for (int i = 0; i < canvas->width * canvas->height; i++) {
        float grain = chance_range(chance, -1, 1) + chance_range(chance, -1, 1);
        canvas->pixels[i].r += grain * strength;
        canvas->pixels[i].g += grain * strength;
        canvas->pixels[i].b += grain * strength;
    }
}
