/* A small picture in linear floats, and the shapes that the demo's posters are made of. */
#ifndef DEMO_CANVAS_H
#define DEMO_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

struct colour {
    float r, g, b;
};

struct canvas {
    int width, height;
    struct colour *pixels;
    float *mask; /* coverage of a shape while it is being drawn */
};

struct point {
    float x, y;
};

/* A generator of its own per picture: the same number gives the same picture everywhere. */
struct chance {
    uint64_t state;
};
uint32_t chance_next(struct chance *chance);
float chance_range(struct chance *chance, float low, float high);
int chance_below(struct chance *chance, int limit);

int canvas_init(struct canvas *canvas, int width, int height);
void canvas_done(struct canvas *canvas);

struct colour colour_hex(uint32_t rgb);
struct colour colour_mix(struct colour a, struct colour b, float part);

/* Smooth noise between -1 and 1. */
float noise_1d(uint32_t seed, float x);
float noise_2d(uint32_t seed, float x, float y);
/* The same summed over octaves: hills, clouds. */
float noise_hills(uint32_t seed, float x, int octaves);
float noise_clouds(uint32_t seed, float x, float y, int octaves);

void draw_pixel(struct canvas *canvas, int x, int y, struct colour colour, float alpha);
void draw_gradient(
    struct canvas *canvas, struct colour top, struct colour middle, struct colour bottom);
/* soft: how many pixels the edge takes. */
void draw_circle(struct canvas *canvas, struct point centre, float radius, float soft,
    struct colour colour, float alpha);
void draw_ring(struct canvas *canvas, struct point centre, float radius, float thickness,
    struct colour colour, float alpha);
/* Light that fades with the distance. */
void draw_glow(
    struct canvas *canvas, struct point centre, float radius, struct colour colour, float alpha);
void draw_line(struct canvas *canvas, struct point from, struct point to, float thickness,
    struct colour colour, float alpha);
void draw_polygon(struct canvas *canvas, const struct point *corners, int count,
    struct colour colour, float alpha);
void draw_box(
    struct canvas *canvas, float x, float y, float w, float h, struct colour colour, float alpha);
/* Everything below the curve: ground, hills, waves. */
typedef float curve_fn(const void *arg, float x);
void draw_below(struct canvas *canvas, curve_fn *curve, const void *arg, struct colour top,
    struct colour bottom, float depth, float alpha);

/* Darker corners, and grain like that of film. */
void finish_vignette(struct canvas *canvas, float strength);
void finish_grain(struct canvas *canvas, struct chance *chance, float strength);

#endif
