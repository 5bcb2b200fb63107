/* jobs.c: threads that each take the next kernel, while the first shows how far they are. */
#include "jobs.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "occupancy.h"
#include "options.h"
#include "progress.h"

typedef struct pool {
  pthread_mutex_t lock; /* of next and done */
  pthread_cond_t one_done;
  job *jobs;
  size_t count, next, done;
  const cuda_tools *tools;
} pool;

/* ---- One kernel ------------------------------------------------------------------------------ */

static fa_status build(job *j, const cuda_tools *tools) {
  const gpu_model *model = gpu_model_of(j->spec->arch);
  gpu_plan plan;
  fa_status status = cuda_build_or_load(&j->binary, j->spec, tools);
  if (status) return status;
  status =
      gpu_plan_compile(&plan, j->spec, j->binary.launch_source, model->processors, model->l2_bytes);
  if (status) return status;
  status = gpu_plan_dynamic_shared(j->dynamic_bytes, &plan, &j->binary.code);
  gpu_plan_free(&plan);
  return status;
}

/* Messages belong to their thread: a failure's is copied. */
static void run_one(job *j, const cuda_tools *tools) {
  j->status = build(j, tools);
  if (j->status) j->message = strdup(fa_error_message());
}

/* ---- All ------------------------------------------------------------------------------------- */

static void *work(void *of) {
  pool *p = of;
  pthread_mutex_lock(&p->lock);
  while (p->next < p->count) {
    job *mine = &p->jobs[p->next++];
    pthread_mutex_unlock(&p->lock);
    run_one(mine, p->tools);
    pthread_mutex_lock(&p->lock);
    ++p->done;
    pthread_cond_signal(&p->one_done);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

static void watch(pool *p) {
  char what[64];
  pthread_mutex_lock(&p->lock);
  while (p->done < p->count) {
    struct timespec soon;
    snprintf(what, sizeof what, "compiling: %zu of %zu done", p->done, p->count);
    progress_show(what, (double)p->done / (double)p->count);
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 200 * 1000000L;
    soon.tv_sec += soon.tv_nsec / 1000000000L;
    soon.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&p->one_done, &p->lock, &soon);
  }
  pthread_mutex_unlock(&p->lock);
  progress_end();
}

static int processors_of_process(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  return CPU_COUNT(&set);
}

void jobs_run(job *jobs, size_t count, int threads, const cuda_tools *tools) {
  pool p = {.jobs = jobs, .count = count, .tools = tools};
  pthread_t workers[CLI_MOST_JOBS];
  int started = 0;
  if (threads < 1) threads = processors_of_process();
  if (threads > CLI_MOST_JOBS) threads = CLI_MOST_JOBS;
  if ((size_t)threads > count) threads = (int)count;
  pthread_mutex_init(&p.lock, NULL);
  pthread_cond_init(&p.one_done, NULL);
  while (started < threads && !pthread_create(&workers[started], NULL, work, &p)) ++started;
  if (!started) work(&p); /* no thread is to be had: this one will do */
  watch(&p);
  for (int i = 0; i < started; ++i) pthread_join(workers[i], NULL);
  pthread_cond_destroy(&p.one_done);
  pthread_mutex_destroy(&p.lock);
}

job *jobs_create(const fa_spec *specs, size_t count) {
  job *jobs = calloc(count, sizeof *jobs);
  for (size_t i = 0; jobs && i < count; ++i) {
    jobs[i].spec = &specs[i];
    fa_spec_name(jobs[i].name, sizeof jobs[i].name, &specs[i]);
  }
  return jobs;
}

void jobs_free(job *jobs, size_t count) {
  for (size_t i = 0; jobs && i < count; ++i) {
    free(jobs[i].message);
    cuda_binary_free(&jobs[i].binary);
  }
  free(jobs);
}
