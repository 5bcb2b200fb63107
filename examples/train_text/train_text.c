/* train_text: a small transformer that learns to predict the next byte of any text, with attention
   from fagen. train_text --help explains how to use it. */
#define _POSIX_C_SOURCE 200809L
#include "train_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct training {
  train_options options;
  text text;
  attention *attention;
  pool *threads;
  model *model;
  optimizer *optimizer;
  FILE *losses;
  uint8_t *tokens, *next; /* one batch */
  random_state random;
} training;

static int failed(const char *what) {
  fprintf(stderr, "train_text: %s\n", what);
  return EXIT_FAILED;
}

/* ---- Setting up ----------------------------------------------------------------------------- */

static int read_text(training *t) {
  const train_options *o = &t->options;
  if (!text_read(&t->text, o->files, o->num_files)) return EXIT_BAD_INPUT;
  if (t->text.count > (size_t)o->context) return EXIT_RIGHT;
  fprintf(stderr, "train_text: FILE %s%s: %zu bytes of text; --context %lld needs %lld or more\n",
          o->files[0], o->num_files > 1 ? " and the others" : "", t->text.count,
          (long long)o->context, (long long)o->context + 1);
  return EXIT_BAD_INPUT;
}

static int open_losses(training *t) {
  if (!t->options.losses) return EXIT_RIGHT;
  t->losses = fopen(t->options.losses, "w");
  if (t->losses) return EXIT_RIGHT;
  fprintf(stderr, "train_text: --losses %s cannot be written: %s\n", t->options.losses,
          strerror(errno));
  return EXIT_BAD_INPUT;
}

static int open_attention(training *t) {
  const train_options *o = &t->options;
  attention_shape shape = {(int32_t)o->target, (int32_t)o->dtype, (int32_t)o->threads,
                           o->layers,          o->heads,          o->heads_kv,
                           o->dim / o->heads,  o->batch,          o->context};
  fa_status status = attention_create(&t->attention, &shape);
  switch (status) {
  case FA_OK:
    return EXIT_RIGHT;
  case FA_UNSUPPORTED:
  case FA_NO_NVRTC:
  case FA_NO_DRIVER:
  case FA_DRIVER:
    fprintf(stderr, "train_text: --target %s cannot run here: %s\n", target_name(o->target),
            fa_error_message());
    return EXIT_CANNOT_RUN;
  case FA_NO_MEMORY:
    return failed("no memory for attention; try a smaller --batch or --context");
  default:
    fprintf(stderr, "train_text: %s: %s\n", fa_status_name(status), fa_error_message());
    return status == FA_INVALID ? EXIT_BAD_INPUT : EXIT_FAILED;
  }
}

static int open_model(training *t) {
  const train_options *o = &t->options;
  model_shape shape = {o->layers, o->heads, o->heads_kv, o->dim, o->context, o->batch};
  int threads = o->threads ? (int)o->threads : attention_threads(t->attention);
  if (threads == 0) threads = (int)sysconf(_SC_NPROCESSORS_ONLN); /* attention runs on a GPU */
  t->threads = pool_create(threads > 0 ? threads : 1);
  if (!t->threads) return failed("the threads cannot be started; try fewer --threads");

  size_t bytes;
  int64_t count, weights = 0;
  t->model = model_create(&shape, t->threads, t->attention, (uint64_t)o->seed, &bytes);
  if (!t->model) {
    fprintf(stderr, "train_text: no memory for a model of %.1f GiB; try a smaller --batch\n",
            (double)bytes * 0x1p-30);
    return EXIT_FAILED;
  }
  const parameter *parameters = model_parameters(t->model, &count);
  for (int64_t i = 0; i < count; ++i) weights += parameters[i].count;
  t->optimizer = optimizer_create(parameters, count, t->threads);
  t->tokens = malloc((size_t)(2 * o->batch * o->context));
  if (!t->optimizer || !t->tokens) return failed("no memory for the optimizer");
  t->next = t->tokens + o->batch * o->context;
  printf("%zu bytes of text; %.2f million weights, %.0f MiB\n", t->text.count,
         1e-6 * (double)weights, (double)bytes * 0x1p-20);
  attention_describe(t->attention, stdout);
  return EXIT_RIGHT;
}

/* ---- Training ------------------------------------------------------------------------------- */

static double rate_at(const train_options *o, int64_t step) {
  const double warm_up = 20, lowest = 0.1, pi = 3.141592653589793;
  if ((double)step < warm_up) return o->rate * (double)(step + 1) / warm_up;
  if (o->steps == 0) return o->rate;
  double done = ((double)step - warm_up) / ((double)o->steps - warm_up);
  return o->rate * (lowest + (1 - lowest) * 0.5 * (1 + cos(pi * done)));
}

/* Leaves the line that progress rewrites. */
static void leave_progress(void) {
  if (isatty(STDOUT_FILENO)) putchar('\n');
  fflush(stdout);
}

static int library_failed(fa_status status) {
  leave_progress();
  fprintf(stderr, "train_text: attention failed, %s: %s\n", fa_status_name(status),
          fa_error_message());
  return EXIT_FAILED;
}

static int train_step(training *t, int64_t step, double *loss) {
  const train_options *o = &t->options;
  text_draw(&t->text, &t->random, o->batch, o->context, t->tokens, t->next);
  fa_status status = model_loss(t->model, t->tokens, t->next, o->batch, o->context, loss);
  if (status == FA_OK) status = model_backward(t->model);
  if (status != FA_OK) return library_failed(status);
  double norm = optimizer_step(t->optimizer, rate_at(o, step));
  if (isfinite(*loss) && isfinite(norm)) return EXIT_RIGHT;
  leave_progress();
  fprintf(stderr,
          "train_text: step %lld: the loss is %g, its gradient's norm %g; "
          "try a --rate below %g\n",
          (long long)step + 1, *loss, norm, o->rate);
  return EXIT_FAILED;
}

static int train(training *t) {
  const train_options *o = &t->options;
  double loss = 0, first_loss = 0;
  progress shown;
  progress_start(&shown);
  for (int64_t step = 0; o->steps == 0 || step < o->steps; ++step) {
    int code = train_step(t, step, &loss);
    if (code != EXIT_RIGHT) return code;
    if (step == 0) first_loss = loss;
    progress_step(&shown, o, loss);
    if (t->losses) fprintf(t->losses, "%lld %.9g %a\n", (long long)step + 1, loss, loss);
    if (o->seconds && seconds_now() - shown.start >= (double)o->seconds) break;
  }
  progress_end(&shown, first_loss);
  if (!t->losses) return EXIT_RIGHT;
  bool written = !ferror(t->losses);
  written = fclose(t->losses) == 0 && written;
  t->losses = NULL;
  return written ? EXIT_RIGHT : failed("--losses could not be written to the end");
}

/* ---- Writing -------------------------------------------------------------------------------- */

/* Draws a byte by its probability, sharpened: exp(logit / temperature). */
static uint8_t draw_byte(const float *logits, random_state *random) {
  const double temperature = 0.8;
  double weights[VOCABULARY], sum = 0, highest = logits[0];
  for (int i = 1; i < VOCABULARY; ++i) highest = fmax(highest, logits[i]);
  for (int i = 0; i < VOCABULARY; ++i) sum += weights[i] = exp((logits[i] - highest) / temperature);
  double left = random_uniform(random) * sum;
  int chosen = 0;
  while (chosen < VOCABULARY - 1 && (left -= weights[chosen]) >= 0) chosen++;
  return (uint8_t)chosen;
}

/* A control byte could do anything to a terminal. */
static void print_byte(uint8_t byte) {
  bool harmless = byte == '\n' || byte == '\t' || (byte >= ' ' && byte != 0x7f);
  putchar(harmless ? byte : '?');
  if (byte == '\n') fflush(stdout);
}

/* Begins with half a context of the text; each new byte is drawn after a forward over the last
   `context` bytes. */
static int write_sample(training *t) {
  int64_t context = t->options.context, length = (context + 1) / 2;
  uint8_t *window = t->tokens;
  text_draw(&t->text, &t->random, 1, length, window, t->next);
  printf("\n---- from the text\n");
  for (int64_t i = 0; i < length; ++i) print_byte(window[i]);
  printf("\n---- and how the model goes on\n");
  for (int64_t i = 0; i < t->options.sample; ++i) {
    const float *logits;
    fa_status status = model_forward(t->model, window, 1, length, &logits);
    if (status != FA_OK) return library_failed(status);
    uint8_t byte = draw_byte(logits + (length - 1) * VOCABULARY, &t->random);
    print_byte(byte);
    if (length == context) memmove(window, window + 1, (size_t)--length);
    window[length++] = byte;
  }
  printf("\n");
  return EXIT_RIGHT;
}

int main(int argc, char **argv) {
  training t = {0};
  int code;
  if (!options_parse(&t.options, argc, argv, &code)) return code;
  t.random.state = (uint64_t)t.options.seed ^ 0x74657874; /* not the numbers of the weights */
  code = read_text(&t);
  if (code == EXIT_RIGHT) code = open_losses(&t);
  if (code == EXIT_RIGHT) code = open_attention(&t);
  if (code == EXIT_RIGHT) code = open_model(&t);
  if (code == EXIT_RIGHT) code = train(&t);
  if (code == EXIT_RIGHT && t.options.sample) code = write_sample(&t);
  bool shown = fflush(stdout) == 0 && !ferror(stdout);
  if (!shown && code == EXIT_RIGHT) code = failed("the output could not be written");
  if (t.losses) fclose(t.losses);
  free(t.tokens);
  optimizer_destroy(t.optimizer);
  model_destroy(t.model);
  pool_destroy(t.threads);
  attention_destroy(t.attention);
  free(t.text.bytes);
  return code;
}
