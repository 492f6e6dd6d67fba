/* The scenes of the demo's posters: each fills the whole canvas from a palette and chance.
 *
 * All are drawn from the back to the front: sky, light, far things, near things. None can fail.
 */
#include "scenes.h"

#include <math.h>

#define PI 3.14159265f

static const uint32_t schemes[][6] = {
    /* sky top, middle, low; dark; accent; light */
    {0x1b1a3a, 0x6a2c70, 0xf08a5d, 0x14122b, 0xf9ed69, 0xfff3d6},
    {0x0b2545, 0x13577f, 0x8dc6d9, 0x081a33, 0xee6c4d, 0xf4faff},
    {0x2d132c, 0x801336, 0xee4540, 0x1d0c1d, 0xffb26b, 0xffe9d2},
    {0x0f2027, 0x2c5364, 0x9fc1b2, 0x0a171c, 0xf2c14e, 0xf5f1e3},
    {0x355c7d, 0xc06c84, 0xf8b195, 0x23314a, 0xfff1c9, 0xfff8ec},
    {0x08090f, 0x1a1f3a, 0x4a3f6b, 0x05060b, 0xe84a5f, 0xe6e9f5},
    {0xe8dcc4, 0xe3c598, 0xd9a566, 0x2f2519, 0xb5342a, 0xfffaf0},
    {0x003b36, 0x0f7173, 0xe7c98b, 0x02211f, 0xd8572a, 0xf0f7ee},
    {0x10002b, 0x5a189a, 0xff6d99, 0x0b001e, 0x3ddad7, 0xfbeaff},
    {0xa9d6e5, 0xcfe8ef, 0xfdf0d5, 0x1d3557, 0xd62839, 0xffffff},
    {0x1e3d2f, 0x4d7c5b, 0xd7d9a8, 0x0f2018, 0xe9b44c, 0xf6f5e6},
    {0x3c0919, 0x9a031e, 0xfb8b24, 0x21040d, 0xfdf0d5, 0xfff4e0},
    {0x22223b, 0x4a4e69, 0xc9ada7, 0x161625, 0xf2e9e4, 0xfffaf7},
    {0x012a4a, 0x2a6f97, 0xa9d6e5, 0x011627, 0xffd166, 0xf1faff},
};

void palette_choose(struct chance *chance, struct palette *ret_palette)
{
    const uint32_t *scheme = schemes[chance_below(chance, sizeof(schemes) / sizeof(schemes[0]))];
    struct colour shifted[6];
    for (int i = 0; i < 6; i++) {
        float strength = i < 3 ? 0.06f : 0.02f;
        shifted[i] = colour_hex(scheme[i]);
        shifted[i].r += chance_range(chance, -strength, strength);
        shifted[i].g += chance_range(chance, -strength, strength);
        shifted[i].b += chance_range(chance, -strength, strength);
    }
    *ret_palette =
        (struct palette){shifted[0], shifted[1], shifted[2], shifted[3], shifted[4], shifted[5]};
}

static void draw_sky(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    uint32_t seed = chance_next(chance);
    draw_gradient(canvas, p->sky_top, p->sky_middle, p->sky_low);
    for (int y = 0; y < canvas->height; y++)
        for (int x = 0; x < canvas->width; x++) {
            float cloud = noise_clouds(seed, (float)x / 110, (float)y / 38, 4);
            draw_pixel(canvas, x, y, p->light, 0.35f * (cloud - 0.08f));
        }
}

static void draw_stars(
    struct canvas *canvas, struct chance *chance, const struct palette *p, float lowest)
{
    int count = 60 + chance_below(chance, 90);
    for (int i = 0; i < count; i++) {
        struct point at = {
            chance_range(chance, 0, (float)canvas->width), chance_range(chance, 0, lowest)};
        draw_circle(canvas, at, chance_range(chance, 0.2f, 1.2f), 1, p->light,
            chance_range(chance, 0.3f, 1));
    }
}

static struct point draw_sun(
    struct canvas *canvas, struct chance *chance, const struct palette *p, float low, float high)
{
    struct point at = {chance_range(chance, 70, 230), chance_range(chance, low, high)};
    float radius = chance_range(chance, 24, 62);
    draw_glow(canvas, at, radius * 3.4f, p->accent, 0.6f);
    draw_circle(canvas, at, radius, 1.2f, colour_mix(p->accent, p->light, 0.35f), 1);
    return at;
}

struct ridge {
    uint32_t seed;
    float base, height, scale;
    bool sharp;
};

static float ridge_curve(const void *arg, float x)
{
    const struct ridge *ridge = arg;
    float hill = noise_hills(ridge->seed, x / ridge->scale, 6);
    if (ridge->sharp)
        hill = 0.5f - 1.6f * fabsf(hill);
    return ridge->base - ridge->height * hill;
}

static void scene_mountains(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    draw_sky(canvas, chance, p);
    draw_sun(canvas, chance, p, 110, 240);
    int layers = 4 + chance_below(chance, 3);
    bool sharp = chance_below(chance, 3) > 0;
    for (int i = 0; i < layers; i++) {
        float near = (float)(i + 1) / (float)layers;
        struct ridge ridge = {
            chance_next(chance), 190 + 190 * near, 130 - 70 * near, 150 - 60 * near, sharp};
        struct colour top = colour_mix(p->sky_low, p->dark, near);
        draw_below(canvas, ridge_curve, &ridge, top, colour_mix(top, p->sky_middle, 0.45f), 130, 1);
    }
}

static void draw_windows(struct canvas *canvas, struct chance *chance, const struct palette *p,
    float x, float top, float width)
{
    for (float y = top + 6; y < (float)canvas->height; y += 7)
        for (float column = x + 3; column + 3 < x + width; column += 5.5f)
            if (chance_below(chance, 10) < 4)
                draw_box(canvas, column, y, 2.4f, 3.4f, p->accent, chance_range(chance, 0.35f, 1));
}

static void scene_city(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    draw_sky(canvas, chance, p);
    draw_stars(canvas, chance, p, 240);
    draw_sun(canvas, chance, p, 90, 180);
    for (int layer = 0; layer < 3; layer++) {
        float near = (float)(layer + 1) / 3;
        struct colour wall = colour_mix(p->sky_middle, p->dark, 0.35f + 0.6f * near);
        for (float x = chance_range(chance, -20, 0); x < (float)canvas->width;) {
            float width = chance_range(chance, 16, 44) * (0.7f + 0.5f * near);
            float top = 205 + 75 * near - chance_range(chance, 0, 110) * (1.1f - 0.4f * near);
            draw_box(canvas, x, top, width, (float)canvas->height, wall, 1);
            if (chance_below(chance, 4) == 0)
                draw_box(canvas, x + width / 2 - 0.7f, top - 22, 1.4f, 24, wall, 1);
            if (layer > 0)
                draw_windows(canvas, chance, p, x, top, width);
            x += width + chance_range(chance, -3, 5);
        }
    }
}

struct wave {
    float base, height, length, phase;
    uint32_t seed;
};

static float wave_curve(const void *arg, float x)
{
    const struct wave *wave = arg;
    float swell = sinf(x / wave->length + wave->phase);
    return wave->base + wave->height * (swell - fabsf(swell) * 0.5f) +
           2.5f * noise_hills(wave->seed, x / 14, 4);
}

static void draw_boat(struct canvas *canvas, struct point at, float size, const struct palette *p)
{
    struct point hull[4] = {{at.x - size, at.y}, {at.x + size, at.y},
        {at.x + size * 0.6f, at.y + size * 0.42f}, {at.x - size * 0.65f, at.y + size * 0.42f}};
    struct point sail[3] = {
        {at.x + 2, at.y - size * 2.3f}, {at.x + size * 0.95f, at.y - 4}, {at.x + 2, at.y - 4}};
    struct point jib[3] = {
        {at.x - 1, at.y - size * 1.9f}, {at.x - size * 0.75f, at.y - 4}, {at.x - 1, at.y - 4}};
    draw_polygon(canvas, sail, 3, p->light, 1);
    draw_polygon(canvas, jib, 3, p->accent, 1);
    draw_polygon(canvas, hull, 4, p->dark, 1);
}

static void scene_sea(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    draw_sky(canvas, chance, p);
    draw_sun(canvas, chance, p, 120, 215);
    int boat_after = chance_below(chance, 3), layers = 7;
    for (int i = 0; i < layers; i++) {
        float near = (float)i / (float)layers;
        struct wave wave = {215 + 210 * near * near + 12 * near, 3 + 13 * near, 9 + 34 * near,
            chance_range(chance, 0, 7), chance_next(chance)};
        struct colour crest = colour_mix(p->sky_low, p->dark, 0.25f + 0.7f * near);
        draw_below(canvas, wave_curve, &wave, colour_mix(crest, p->light, 0.22f), crest, 26, 1);
        if (i == boat_after) {
            float x = chance_range(chance, 60, 240);
            draw_boat(canvas, (struct point){x, wave_curve(&wave, x) + 6 + 10 * near},
                chance_range(chance, 16, 30), p);
        }
    }
}

static void shade_planet(
    struct canvas *canvas, struct point at, float radius, uint32_t seed, const struct palette *p)
{
    draw_glow(canvas, at, radius * 2, p->accent, 0.35f);
    draw_circle(canvas, at, radius, 1, p->accent, 1);
    for (int y = (int)(at.y - radius); y < (int)(at.y + radius) + 1; y++)
        for (int x = (int)(at.x - radius); x < (int)(at.x + radius) + 1; x++) {
            float u = ((float)x - at.x) / radius, v = ((float)y - at.y) / radius;
            float away = u * u + v * v;
            if (away > 0.97f)
                continue;
            float bands = noise_clouds(seed, u * 1.3f + 9, v * 5 + 9 + u * v, 4);
            draw_pixel(canvas, x, y, bands > 0 ? p->light : p->sky_middle, fabsf(bands) * 1.1f);
            draw_pixel(canvas, x, y, p->dark, fmaxf(0, (u + v) * 0.75f + 0.15f));
        }
}

static void draw_planet_ring(
    struct canvas *canvas, struct point at, float radius, float tilt, const struct palette *p)
{
    for (int i = 0; i < 320; i++) {
        float angle = (float)i / 320 * 2 * PI, wide = radius * 1.75f;
        float x = wide * cosf(angle), y = wide * 0.24f * sinf(angle);
        if (y < 0 && hypotf(x, y) < radius)
            continue; /* behind the planet */
        struct point from = {
            at.x + x * cosf(tilt) - y * sinf(tilt), at.y + x * sinf(tilt) + y * cosf(tilt)};
        draw_circle(canvas, from, 1.8f, 2, p->light, 0.30f);
    }
}

static void scene_space(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    uint32_t seed = chance_next(chance);
    draw_gradient(canvas, p->dark, colour_mix(p->dark, p->sky_top, 0.7f), p->sky_middle);
    for (int y = 0; y < canvas->height; y++)
        for (int x = 0; x < canvas->width; x++) {
            float haze = noise_clouds(seed, (float)x / 90, (float)y / 120, 5);
            draw_pixel(canvas, x, y, p->sky_low, 0.7f * haze);
        }
    draw_stars(canvas, chance, p, 450);
    draw_stars(canvas, chance, p, 450);
    struct point at = {chance_range(chance, 90, 210), chance_range(chance, 150, 260)};
    float radius = chance_range(chance, 45, 92);
    shade_planet(canvas, at, radius, seed + 77, p);
    if (chance_below(chance, 3) > 0)
        draw_planet_ring(canvas, at, radius, chance_range(chance, -0.6f, 0.6f), p);
    struct point moon = {chance_range(chance, 20, 280), chance_range(chance, 60, 330)};
    shade_planet(canvas, moon, chance_range(chance, 7, 16), seed + 99, p);
}

static void draw_tile(struct canvas *canvas, struct chance *chance, float x, float y, float size,
    const struct palette *p)
{
    const struct colour colours[] = {
        p->dark, p->accent, p->light, p->sky_top, p->sky_middle, p->sky_low};
    struct colour back = colours[chance_below(chance, 6)], front = colours[chance_below(chance, 6)];
    struct point corner = {
        x + (float)chance_below(chance, 2) * size, y + (float)chance_below(chance, 2) * size};
    struct point middle = {x + size / 2, y + size / 2};
    draw_box(canvas, x, y, size, size, back, 1);
    switch (chance_below(chance, 5)) {
    case 0: {
        struct point half[3] = {{x, y}, {x + size, y + size}, {corner.x, 2 * y + size - corner.y}};
        draw_polygon(canvas, half, 3, front, 1);
        break;
    }
    case 1:
        draw_circle(canvas, middle, size * 0.38f, 1, front, 1);
        break;
    case 2:
        draw_ring(canvas, middle, size * 0.32f, size * 0.14f, front, 1);
        break;
    default: /* a quarter of a circle, cut at the tile's edge */
        for (int row = 0; row < (int)size; row++)
            for (int column = 0; column < (int)size; column++) {
                float away = hypotf(x + (float)column - corner.x, y + (float)row - corner.y);
                draw_pixel(canvas, (int)x + column, (int)y + row, front,
                    fminf(1, fmaxf(0, size * 0.96f - away)));
            }
    }
}

static void scene_shapes(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    float size = (float[]){50, 60, 75, 100}[chance_below(chance, 4)];
    for (float y = 0; y < (float)canvas->height; y += size)
        for (float x = 0; x < (float)canvas->width; x += size)
            draw_tile(canvas, chance, x, y, size, p);
}

static void draw_striped_sun(
    struct canvas *canvas, struct point at, float radius, const struct palette *p)
{
    draw_glow(canvas, at, radius * 2.6f, p->accent, 0.5f);
    for (float y = at.y - radius; y < at.y + radius; y += 1) {
        float down = (y - at.y) / radius;
        float half = radius * sqrtf(fmaxf(0, 1 - down * down));
        if (down > -0.1f && fmodf(y - at.y, 12) > 11 - 7 * down)
            continue;
        struct colour colour = colour_mix(p->light, p->accent, (down + 1) / 1.3f);
        draw_box(canvas, at.x - half, y, 2 * half, 1.02f, colour, 1);
    }
}

static void scene_road(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    float horizon = chance_range(chance, 225, 285), middle = chance_range(chance, 120, 180);
    draw_sky(canvas, chance, p);
    draw_striped_sun(canvas, (struct point){middle, horizon - chance_range(chance, 20, 70)},
        chance_range(chance, 55, 85), p);
    struct ridge ridge = {chance_next(chance), horizon - 8, 46, 60, true};
    draw_below(
        canvas, ridge_curve, &ridge, colour_mix(p->sky_middle, p->dark, 0.5f), p->dark, 60, 1);
    draw_box(canvas, 0, horizon, 300, 450, colour_mix(p->dark, p->sky_top, 0.5f), 1);
    for (int i = 0; i < 15; i++) { /* the grid of the plain */
        float y = horizon + 165 * powf((float)i / 14, 2.2f), out = (float)(i - 7) * 95;
        draw_box(canvas, 0, y, 300, 1, p->accent, 0.45f);
        draw_line(canvas, (struct point){middle + out / 12, horizon},
            (struct point){middle + out, 450}, 1, p->accent, 0.45f);
    }
    struct point road[4] = {
        {middle - 2, horizon}, {middle + 2, horizon}, {middle + 125, 450}, {middle - 125, 450}};
    draw_polygon(canvas, road, 4, p->dark, 0.95f);
    for (int i = 1; i < 9; i++) {
        float part = powf((float)i / 9, 2.2f), y = horizon + part * 165;
        draw_box(canvas, middle - 3 * part, y, 6 * part, 16 * part, p->light, 0.9f);
    }
}

static void draw_pine(struct canvas *canvas, struct point foot, float height, struct colour colour)
{
    draw_box(canvas, foot.x - height * 0.02f, foot.y - height * 0.2f, height * 0.04f, height * 0.3f,
        colour, 1);
    for (int i = 0; i < 5; i++) {
        float top = foot.y - height + height * 0.17f * (float)i;
        float half = height * (0.07f + 0.035f * (float)i);
        struct point branch[3] = {{foot.x, top}, {foot.x + half, top + height * 0.27f},
            {foot.x - half, top + height * 0.27f}};
        draw_polygon(canvas, branch, 3, colour, 1);
    }
}

static void scene_forest(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    draw_sky(canvas, chance, p);
    draw_sun(canvas, chance, p, 80, 190);
    for (int layer = 0; layer < 4; layer++) {
        float near = (float)(layer + 1) / 4, step = 10 + 22 * near;
        struct colour wood = colour_mix(p->sky_low, p->dark, 0.25f + 0.75f * near);
        struct ridge ground = {chance_next(chance), 245 + 160 * near, 40, 120, false};
        for (float x = -10; x < 310; x += step * chance_range(chance, 0.5f, 1.3f))
            draw_pine(canvas, (struct point){x, ridge_curve(&ground, x) + 6},
                (40 + 120 * near) * chance_range(chance, 0.7f, 1.25f), wood);
        draw_below(
            canvas, ridge_curve, &ground, wood, colour_mix(wood, p->sky_middle, 0.5f), 110, 1);
    }
}

static void scene_rings(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    struct point at = {chance_range(chance, 100, 200), chance_range(chance, 160, 240)};
    float step = chance_range(chance, 9, 22), drift = chance_range(chance, -2, 2);
    draw_gradient(canvas, p->sky_top, p->sky_middle, p->sky_top);
    for (float radius = 380; radius > step; radius -= step) {
        bool even = ((int)(radius / step) & 1) == 0;
        draw_circle(canvas, at, radius, 1,
            colour_mix(even ? p->accent : p->dark, p->sky_low, radius / 700), 1);
        at.x += drift;
    }
    draw_circle(canvas, at, step * 1.6f, 1, p->light, 1);
    struct point shoulders[4] = {
        {at.x - 8, at.y + 8}, {at.x + 8, at.y + 8}, {at.x + 46, 450}, {at.x - 46, 450}};
    if (chance_below(chance, 2) == 0)
        draw_polygon(canvas, shoulders, 4, p->dark, 0.85f);
}

static void draw_fish(
    struct canvas *canvas, struct point at, float length, float angle, struct colour colour)
{
    static const struct point shape[] = {{1, 0}, {0.55f, 0.24f}, {0, 0.27f}, {-0.55f, 0.06f},
        {-1, 0.32f}, {-0.88f, 0}, {-1, -0.32f}, {-0.55f, -0.06f}, {0, -0.27f}, {0.55f, -0.24f}};
    struct point turned[10];
    for (int i = 0; i < 10; i++) {
        float x = shape[i].x * length / 2, y = shape[i].y * length / 2;
        turned[i] = (struct point){
            at.x + x * cosf(angle) - y * sinf(angle), at.y + x * sinf(angle) + y * cosf(angle)};
    }
    draw_polygon(canvas, turned, 10, colour, 1);
}

static void draw_shoal(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    struct point centre = {chance_range(chance, 120, 180), chance_range(chance, 180, 250)};
    float inner = chance_range(chance, 20, 60), spin = chance_below(chance, 2) ? 1 : -1;
    int odd = chance_below(chance, 170);
    for (int i = 0; i < 170; i++) {
        float angle = chance_range(chance, 0, 2 * PI);
        float away = inner + 120 * sqrtf(chance_range(chance, 0, 1));
        struct point at = {centre.x + away * cosf(angle), centre.y + away * 1.1f * sinf(angle)};
        struct colour colour =
            i == odd ? p->accent : colour_mix(p->light, p->dark, chance_range(chance, 0, 1));
        draw_fish(canvas, at, i == odd ? 40 : chance_range(chance, 12, 26),
            angle + spin * PI / 2 + chance_range(chance, -0.3f, 0.3f), colour);
    }
}

static void scene_shoal(struct canvas *canvas, struct chance *chance, const struct palette *p)
{
    uint32_t seed = chance_next(chance);
    draw_gradient(canvas, p->sky_low, p->sky_middle, p->dark);
    for (int y = 0; y < canvas->height; y++) /* light from above, in shafts */
        for (int x = 0; x < canvas->width; x++) {
            float shaft = noise_2d(seed, ((float)x - (float)y * 0.35f) / 24, 0);
            draw_pixel(
                canvas, x, y, p->light, 0.3f * shaft * (1 - (float)y / (float)canvas->height));
        }
    draw_shoal(canvas, chance, p);
}

const struct scene scenes[] = {
    {"mountains", scene_mountains},
    {"city", scene_city},
    {"sea", scene_sea},
    {"space", scene_space},
    {"shapes", scene_shapes},
    {"road", scene_road},
    {"forest", scene_forest},
    {"rings", scene_rings},
    {"shoal", scene_shoal},
};
const int scene_count = sizeof(scenes) / sizeof(scenes[0]);
