/* read_slice CKPT                    lists the tensors of a checkpoint
 * read_slice CKPT KEY FIRST COUNT    reads some rows of one, as float32, and prints their sum: nothing else is read */
#include <dcpctl/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Waits for a job. Says why, and ends the program, if it fails. */
static dcpctl_result result_of(dcpctl_job* job) {
  dcpctl_result result = {.size = sizeof result};
  if (job == NULL) {
    fprintf(stderr, "no memory\n");
    exit(4);
  }
  while (dcpctl_job_wait(job, 1000) == DCPCTL_RUNNING) {
    dcpctl_progress progress = {.size = sizeof progress};
    dcpctl_job_progress(job, &progress);
    fprintf(stderr, "%llu of %llu bytes\n", (unsigned long long)progress.bytes_done, (unsigned long long)progress.bytes_total);
  }
  const dcpctl_problem* problem = dcpctl_job_problem(job);
  if (problem != NULL) {
    fprintf(stderr, "%s\n", problem->line.data);
    if (problem->hint.bytes > 0) fprintf(stderr, "hint: %s\n", problem->hint.data);
    exit(problem->kind);
  }
  dcpctl_job_result(job, &result);
  dcpctl_job_free(job);
  return result;
}

static void list(const dcpctl_checkpoint* checkpoint) {
  dcpctl_entry entry = {.size = sizeof entry};
  for (uint64_t n = 0; dcpctl_entries(checkpoint, n, 1, &entry) == 1; ++n) {
    if (entry.is_object) continue;
    printf("%.*s  %.*s", (int)entry.key.bytes, entry.key.data, (int)entry.dtype.bytes, entry.dtype.data);
    for (uint32_t d = 0; d < entry.rank; ++d) printf(" %lld", (long long)entry.shape[d]);
    printf("\n");
  }
}

static int sum_of_rows(dcpctl_checkpoint* checkpoint, const char* key, int64_t first, int64_t count) {
  dcpctl_entry entry = {.size = sizeof entry};
  const uint64_t number = dcpctl_find(checkpoint, key, strlen(key));
  if (number == UINT64_MAX || dcpctl_entries(checkpoint, number, 1, &entry) == 0 || entry.rank == 0) {
    fprintf(stderr, "%s: no tensor with rows\n", key);
    return 2;
  }
  int64_t starts[64] = {0}, counts[64];
  size_t elements = 1;
  for (uint32_t d = 0; d < entry.rank; ++d) {
    counts[d] = d == 0 ? count : entry.shape[d];
    elements *= (size_t)counts[d];
  }
  starts[0] = first;
  float* values = malloc(elements > 0 ? elements * sizeof *values : 1);
  if (values == NULL) return 4;
  const dcpctl_part part = {.size = sizeof part, .entry = number, .starts = starts, .counts = counts, .to = values, .dtype = "float32"};
  const dcpctl_result read = result_of(dcpctl_read(checkpoint, &part, 1, NULL));
  double sum = 0;
  for (size_t n = 0; n < elements; ++n) sum += values[n];
  printf("%s: %zu elements, sum %g, %llu bytes read\n", key, elements, sum, (unsigned long long)read.bytes_read);
  free(values);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 5) return fprintf(stderr, "usage: read_slice CKPT [KEY FIRST COUNT]\n"), 2;
  dcpctl_checkpoint* checkpoint = result_of(dcpctl_open(argv[1], NULL)).checkpoint;
  int code = 0;
  if (argc == 2) list(checkpoint);
  else code = sum_of_rows(checkpoint, argv[2], atoll(argv[3]), atoll(argv[4]));
  dcpctl_checkpoint_free(checkpoint);
  return code;
}
