/* save_tensors OUT    saves two tensors as a checkpoint that torch.distributed.checkpoint.load reads */
#include <dcpctl/c.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: save_tensors OUT\n"), 2;
  static float weight[1000][8], bias[8];
  for (int row = 0; row < 1000; ++row)
    for (int column = 0; column < 8; ++column) weight[row][column] = (float)(row + column);
  const int64_t weight_shape[] = {1000, 8}, bias_shape[] = {8};
  /* Their places in the state dict: {"model": {"weight": ..., "bias": ...}}. */
  const dcpctl_text weight_path[] = {{"model", 5}, {"weight", 6}}, bias_path[] = {{"model", 5}, {"bias", 4}};
  const dcpctl_shard shards[] = {
      {.size = sizeof shards[0],
       .key = {"model.weight", 12},
       .dtype = "float32",
       .rank = 2,
       .shape = weight_shape,
       .data = weight,
       .path = weight_path,
       .path_parts = 2},
      {.size = sizeof shards[0],
       .key = {"model.bias", 10},
       .dtype = "float32",
       .rank = 1,
       .shape = bias_shape,
       .data = bias,
       .path = bias_path,
       .path_parts = 2},
  };
  dcpctl_job* job = dcpctl_save(argv[1], shards, 2, NULL);
  if (job == NULL) return 4;
  int code = 0;
  if (dcpctl_job_wait(job, -1) == DCPCTL_FAILED) {
    const dcpctl_problem* problem = dcpctl_job_problem(job);
    fprintf(stderr, "%s\n", problem->line.data);
    code = problem->kind;
  } else {
    dcpctl_result result = {.size = sizeof result};
    dcpctl_job_result(job, &result);
    printf("%s: %llu bytes\n", argv[1], (unsigned long long)result.bytes_written);
  }
  dcpctl_job_free(job);
  return code;
}
