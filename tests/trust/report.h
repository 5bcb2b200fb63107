/* report.h: figures for the table that trust.sh makes. */
#ifndef FAGEN_TESTS_TRUST_REPORT_H
#define FAGEN_TESTS_TRUST_REPORT_H

/* Adds a line to the file that FAGEN_TRUST_REPORT names; does nothing where it names none. */
void report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
