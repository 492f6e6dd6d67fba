/* Formats and parses HTTP dates without the C library's time functions, which depend on the locale.

   Calendar arithmetic is on days since 1970 in the proleptic Gregorian calendar, years beginning in
   March so that the leap day comes last. A text that is no date is -1 and the field is then ignored
   by its caller, as RFC 9110 asks. */
#include "http/date.h"

#include <stdbool.h>
#include <string.h>

static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char month_names[12][4] = {
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

#define DAYS_PER_ERA 146097 /* 400 years */
#define EPOCH_DAYS   719468 /* from 0000-03-01 to 1970-01-01 */
#define FIRST_SECOND (-62167219200ll)
#define LAST_SECOND  253402300799ll

static int64_t days_of(int64_t year, unsigned month, unsigned day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    unsigned of_era = (unsigned)(y - era * 400);
    unsigned of_year = (153 * (month + (month > 2 ? -3u : 9u)) + 2) / 5 + day - 1;

    return era * DAYS_PER_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_DAYS;
}

static void civil_of(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day)
{
    int64_t shifted = days + EPOCH_DAYS;
    int64_t era = (shifted >= 0 ? shifted : shifted - (DAYS_PER_ERA - 1)) / DAYS_PER_ERA;
    unsigned of_era = (unsigned)(shifted - era * DAYS_PER_ERA);
    unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
    unsigned month = (5 * of_year + 2) / 153;

    *ret_day = of_year - (153 * month + 2) / 5 + 1;
    *ret_month = month < 10 ? month + 3 : month - 9;
    *ret_year = (int64_t)year + era * 400 + (*ret_month <= 2);
}

static void two_digits(char *at, unsigned value)
{
    at[0] = (char)('0' + value / 10 % 10);
    at[1] = (char)('0' + value % 10);
}

void http_date_format(int64_t seconds, char ret_text[HTTP_DATE_BYTES])
{
    static const char pattern[HTTP_DATE_BYTES + 1] = "Sun, 00 Jan 0000 00:00:00 GMT";
    int64_t days, year;
    unsigned month, day, of_day;

    if (seconds < FIRST_SECOND)
        seconds = FIRST_SECOND;
    if (seconds > LAST_SECOND)
        seconds = LAST_SECOND;
    days = seconds >= 0 ? seconds / 86400 : -((86399 - seconds) / 86400);
    of_day = (unsigned)(seconds - days * 86400);
    civil_of(days, &year, &month, &day);
    memcpy(ret_text, pattern, HTTP_DATE_BYTES);
    memcpy(ret_text, day_names[((days + 4) % 7 + 7) % 7], 3);
    two_digits(ret_text + 5, day);
    memcpy(ret_text + 8, month_names[month - 1], 3);
    two_digits(ret_text + 12, (unsigned)year / 100);
    two_digits(ret_text + 14, (unsigned)year);
    two_digits(ret_text + 17, of_day / 3600);
    two_digits(ret_text + 20, of_day / 60 % 60);
    two_digits(ret_text + 23, of_day % 60);
}

/* --- parsing --- */

struct reader {
    const uint8_t *at, *end;
    bool failed;
};

static void skip(struct reader *reader, const char *text)
{
    size_t length = strlen(text);

    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0)
        reader->failed = true;
    else
        reader->at += length;
}

static unsigned number(struct reader *reader, unsigned digits)
{
    unsigned value = 0;

    if ((size_t)(reader->end - reader->at) < digits) {
        reader->failed = true;
        return 0;
    }
    for (; digits > 0; digits--, reader->at++) {
        if (*reader->at < '0' || *reader->at > '9') {
            reader->failed = true;
            return 0;
        }
        value = value * 10 + (unsigned)(*reader->at - '0');
    }
    return value;
}

static unsigned month_number(struct reader *reader)
{
    for (unsigned i = 0; i < 12 && reader->end - reader->at >= 3; i++) {
        if (memcmp(reader->at, month_names[i], 3) == 0) {
            reader->at += 3;
            return i + 1;
        }
    }
    reader->failed = true;
    return 1;
}

struct fields {
    unsigned year, month, day, hour, minute, second;
};

static void time_of_day(struct reader *reader, struct fields *fields)
{
    fields->hour = number(reader, 2);
    skip(reader, ":");
    fields->minute = number(reader, 2);
    skip(reader, ":");
    fields->second = number(reader, 2);
}

/* 06 Nov 1994 08:49:37 GMT */
static void imf_fixdate(struct reader *reader, struct fields *fields)
{
    fields->day = number(reader, 2);
    skip(reader, " ");
    fields->month = month_number(reader);
    skip(reader, " ");
    fields->year = number(reader, 4);
    skip(reader, " ");
    time_of_day(reader, fields);
    skip(reader, " GMT");
}

/* 06-Nov-94 08:49:37 GMT; two digits mean the nearest year that is not 50 years ahead. */
static void rfc850_date(struct reader *reader, struct fields *fields)
{
    fields->day = number(reader, 2);
    skip(reader, "-");
    fields->month = month_number(reader);
    skip(reader, "-");
    fields->year = number(reader, 2);
    fields->year += fields->year < 70 ? 2000 : 1900;
    skip(reader, " ");
    time_of_day(reader, fields);
    skip(reader, " GMT");
}

/* Nov  6 08:49:37 1994 */
static void asctime_date(struct reader *reader, struct fields *fields)
{
    fields->month = month_number(reader);
    skip(reader, " ");
    if (reader->at < reader->end && *reader->at == ' ') {
        reader->at++;
        fields->day = number(reader, 1);
    } else {
        fields->day = number(reader, 2);
    }
    skip(reader, " ");
    time_of_day(reader, fields);
    skip(reader, " ");
    fields->year = number(reader, 4);
}

int http_date_parse(const uint8_t *text, size_t length, int64_t *ret_seconds)
{
    struct reader reader = {text, text + length, false};
    const uint8_t *comma = memchr(text, ',', length);
    struct fields fields = {0};

    if (length < 24)
        return -1;
    if (comma == NULL) {
        reader.at = text + 3;
        skip(&reader, " ");
        asctime_date(&reader, &fields);
    } else {
        reader.at = comma;
        skip(&reader, ", ");
        if (comma == text + 3)
            imf_fixdate(&reader, &fields);
        else
            rfc850_date(&reader, &fields);
    }
    if (reader.failed || reader.at != reader.end || fields.day < 1 || fields.day > 31 ||
        fields.hour > 23 || fields.minute > 59 || fields.second > 60)
        return -1;
    *ret_seconds = days_of(fields.year, fields.month, fields.day) * 86400 + fields.hour * 3600 +
                   fields.minute * 60 + fields.second;
    return 0;
}
