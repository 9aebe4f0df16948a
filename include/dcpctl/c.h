/* The library for C, and for whatever calls C: read and save checkpoints. See dcpctl.h for what a checkpoint is.
 *
 *   dcpctl_job* job = dcpctl_open("step-1000", NULL);
 *   if (dcpctl_job_wait(job, -1) == DCPCTL_FAILED) fail(dcpctl_job_problem(job));
 *   dcpctl_result result = {.size = sizeof result};
 *   dcpctl_job_result(job, &result);
 *   dcpctl_job_free(job);
 *   ... result.checkpoint ...
 *
 * Structs begin with their size, which the caller sets, those that are filled in too: members that a later release adds at the end do not
 * disturb older callers, and become 0 where an older library fills in the struct. In arrays of structs all have the size of the first. Every
 * other member may be zero: that is its default.
 *
 * What takes time is a job. It runs on threads of its own, which call nothing of the caller's. Functions that start one return NULL if there
 * is no memory or thread for it; whatever else is wrong, the job fails. They copy what they are given, except the memory that is read into or
 * saved from, which must stay until the job has ended. Functions may be called on any thread. After fork(), a child may call none of them
 * with what its parent has made.
 */
#ifndef DCPCTL_C_H
#define DCPCTL_C_H

#include <stddef.h>
#include <stdint.h>

#ifndef DCPCTL_API
#define DCPCTL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define DCPCTL_ABI_VERSION 1

typedef struct dcpctl_job dcpctl_job;
typedef struct dcpctl_checkpoint dcpctl_checkpoint;
typedef struct dcpctl_saving dcpctl_saving;

/* Bytes; as a rule UTF-8. They belong to what they were asked of, and live as long. A NUL follows those of problems and results only. */
typedef struct dcpctl_text {
  const char* data;
  size_t bytes;
} dcpctl_text;

/* DCPCTL_ABI_VERSION of the library: members and functions may be added under the same one, never changed. */
DCPCTL_API uint32_t dcpctl_abi_version(void);
/* Of the release: "0.1.0". */
DCPCTL_API const char* dcpctl_version(void);

/* --- problems */

/* Who is at fault. The numbers are the exit codes of the dcpctl program. */
enum dcpctl_kind { DCPCTL_ANSWER_NO = 1, DCPCTL_USAGE, DCPCTL_INPUT, DCPCTL_MACHINE, DCPCTL_LACKING, DCPCTL_RANK };
enum dcpctl_severity { DCPCTL_NOTE, DCPCTL_WARNING, DCPCTL_DAMAGE, DCPCTL_ERROR };

/* A fact, and its place: error.h has what the members mean. A job that was cancelled has the id "interrupted". */
typedef struct dcpctl_problem {
  size_t size;
  int32_t kind;     /* enum dcpctl_kind */
  int32_t severity; /* enum dcpctl_severity */
  dcpctl_text id, path, member, key;
  const uint64_t* offset; /* NULL: none */
  const uint32_t* rank;   /* NULL: none */
  dcpctl_text what, got, expected, hint, line;
} dcpctl_problem;

/* --- jobs */

enum dcpctl_state {
  DCPCTL_RUNNING,  /* the time is over, the job is not */
  DCPCTL_DONE,     /* it has a result */
  DCPCTL_FAILED,   /* it has a problem */
  DCPCTL_EXCHANGE, /* it has a text for the other ranks (dcpctl_job_text), and goes on with the texts of all (dcpctl_job_give) */
};

/* Waits until the job is no longer running, or for so many milliseconds; -1: for ever. Returns an enum dcpctl_state. */
DCPCTL_API int32_t dcpctl_job_wait(dcpctl_job* job, int64_t milliseconds);

typedef struct dcpctl_progress {
  size_t size;
  uint64_t bytes_done;
  uint64_t bytes_total; /* 0: not known yet */
} dcpctl_progress;
DCPCTL_API void dcpctl_job_progress(const dcpctl_job* job, dcpctl_progress* progress);

/* Returns at once; the job then fails with "interrupted", unless it has just ended. One that exchanges texts still does: the texts of all
 * must be given, and by the next one the other ranks hear of the failure. */
DCPCTL_API void dcpctl_job_cancel(dcpctl_job* job);
/* Of a job that has failed; else NULL. It lives as long as the job. */
DCPCTL_API const dcpctl_problem* dcpctl_job_problem(const dcpctl_job* job);

/* An item of a file, as the metadata of a checkpoint names it. */
typedef struct dcpctl_place {
  size_t size;
  dcpctl_text file; /* in the checkpoint's folder */
  uint64_t offset, length;
} dcpctl_place;

typedef struct dcpctl_result {
  size_t size;
  dcpctl_checkpoint* checkpoint; /* of dcpctl_open: belongs to the caller from the first call on; later ones give NULL */
  const dcpctl_text* texts;      /* of dcpctl_describe and dcpctl_objects: one for each entry; they live as long as the job */
  size_t text_count;
  uint64_t bytes_read, bytes_written; /* from and to files */
  uint64_t records_compared;          /* whose CRC was compared */
  uint64_t records_not_compared;      /* that were read, but only in part, or whose writer stored no CRC */
  uint64_t nanoseconds;
  dcpctl_saving* saving;      /* of dcpctl_begin: belongs to the caller from the first call on, as the checkpoint does */
  const dcpctl_place* places; /* of dcpctl_append: one for each shard; they live as long as the job */
  size_t place_count;
} dcpctl_result;
/* Of a job that is done; else all members but the size become 0. */
DCPCTL_API void dcpctl_job_result(dcpctl_job* job, dcpctl_result* result);

/* In the state DCPCTL_EXCHANGE: the text of this rank. It may hold any byte, and lives until the next call for the job. */
DCPCTL_API dcpctl_text dcpctl_job_text(const dcpctl_job* job);
/* Gives the texts of all ranks, by rank. */
DCPCTL_API void dcpctl_job_give(dcpctl_job* job, const dcpctl_text* texts, size_t count);

/* Cancels the job if it is running, and waits for it: from then on nothing is written to the caller's memory. It exchanges no more texts,
 * so other ranks that wait for one wait in vain. NULL is allowed. */
DCPCTL_API void dcpctl_job_free(dcpctl_job* job);

/* --- opening. Lists of texts end with NULL; NULL is an empty list. */

typedef struct dcpctl_open_options {
  size_t size;
  const char* step;           /* which step of a run folder: a number, or "latest"; NULL: the path is the checkpoint */
  uint64_t max_memory;        /* bytes that reading may take beside what the process holds; 0: 1 GiB */
  uint32_t threads;           /* of a job; 0: the number of cores, clamped to 4..16 */
  int32_t model_only;         /* not 0: leave out the optimizer and whatever else a trainer keeps beside the model, and strip its root */
  const char* root;           /* dotted path: take this part of the state dict, with its own names; NULL: all */
  const char* const* include; /* globs of keys: only these */
  const char* const* exclude; /* globs of keys: not these, though they are included */
  const char* const* rename;  /* "REGEX=>REPLACEMENT", each applied to the result of the one before */
  const char* dtype;          /* of the model's floating-point tensors; NULL: theirs */
  const char* const* dtype_rules; /* "GLOB=DTYPE" or "GLOB=keep"; the first match wins, before `dtype` */
  const char* map;                /* a built-in map ("llama.transformers"), a file, or "auto"; NULL: none */
  const char* map_to;             /* a second map, from the published names to another trainer's; NULL: none */
  const char* map_config;         /* the model's config.json; NULL: the one beside the checkpoint */
  const uint32_t* prefer_rank;    /* whose copy of a key is used where several ranks wrote it; NULL: all must be equal */
} dcpctl_open_options;

/* Reads the metadata; with a map also the headers of what it reads. The result has the checkpoint. `options` may be NULL. */
DCPCTL_API dcpctl_job* dcpctl_open(const char* path, const dcpctl_open_options* options);
/* Jobs that were started with the checkpoint go on. NULL is allowed. */
DCPCTL_API void dcpctl_checkpoint_free(dcpctl_checkpoint* checkpoint);

/* --- what is in a checkpoint. Nothing here reads a file, and nothing fails. */

typedef struct dcpctl_facts {
  size_t size;
  dcpctl_text path;       /* of a run folder: that of the step */
  dcpctl_text kind;       /* as `dcpctl inspect --json` has it: "dcp" */
  dcpctl_text written_by; /* releases of torch: ">=2.15", "2.4 - 2.6"; empty: not known */
  const uint64_t* step;   /* that the name of the folder, or of one above it, says; NULL: none */
  uint32_t ranks;         /* that saved it, or that the chunks suggest; 0: no tensor is sharded */
  int32_t has_map;        /* chunks are those of a map's result, whose files are the source's */
  uint64_t entries, tensors, objects, chunks;
} dcpctl_facts;
DCPCTL_API void dcpctl_checkpoint_facts(const dcpctl_checkpoint* checkpoint, dcpctl_facts* facts);

/* A tensor or an object. Entries are numbered in the order of the metadata. */
typedef struct dcpctl_entry {
  size_t size;
  dcpctl_text key;
  dcpctl_text dtype;    /* as torch spells it, without "torch."; empty: an object, or a tensor of a dtype that is not known */
  const int64_t* shape; /* `rank` sizes */
  uint32_t rank;
  int32_t is_object;
  uint64_t bytes;      /* of all elements in that dtype; of an object: its item */
  uint64_t chunks;     /* of an object: 1 */
  uint32_t path_parts; /* see dcpctl_path */
  int32_t requires_grad;
} dcpctl_entry;
/* Fills in up to `count` entries from the number `first` on, and returns how many. */
DCPCTL_API uint64_t dcpctl_entries(const dcpctl_checkpoint* checkpoint, uint64_t first, uint64_t count, dcpctl_entry* entries);
/* The number of the entry with this key; UINT64_MAX: there is none. */
DCPCTL_API uint64_t dcpctl_find(const dcpctl_checkpoint* checkpoint, const char* key, size_t bytes);

/* A step on the way to an entry in the state dict. */
typedef struct dcpctl_path_part {
  size_t size;
  dcpctl_text name;   /* the key of a dict */
  int64_t position;   /* in a list; -1: it is a dict */
  int32_t is_integer; /* the key is an integer, which `name` spells */
} dcpctl_path_part;
DCPCTL_API uint64_t dcpctl_path(const dcpctl_checkpoint* checkpoint, uint64_t entry, uint64_t first, uint64_t count,
                                dcpctl_path_part* parts);

/* A box of the tensor, and the item that holds it. */
typedef struct dcpctl_chunk {
  size_t size;
  const int64_t* offsets; /* as many as the tensor has dims */
  const int64_t* sizes;
  dcpctl_text file; /* in the checkpoint's folder; empty: no file has it */
  uint64_t offset, length;
} dcpctl_chunk;
DCPCTL_API uint64_t dcpctl_chunks(const dcpctl_checkpoint* checkpoint, uint64_t entry, uint64_t first, uint64_t count,
                                  dcpctl_chunk* chunks);

/* --- reading */

/* The result has a JSON text for each entry. Of a tensor: {"placement": "Shard(0) x8"}. Of an object, of which nothing is executed:
 * {"value": VALUE} if its pickle holds plain values alone, else {"would_call": ["module.name", ...], "refused": [...]}: the names that
 * loading it would import, and those of them that torch.load(weights_only=True) refuses. A VALUE is null, true, a number or a text, a list
 * as an array, and else an object with one member: {"tuple": [...]}, {"dict": [[KEY, VALUE], ...]}, {"set": [...]}, {"frozenset": [...]},
 * {"bytes": HEX}, {"float": "nan" or "inf" or "-inf"}. */
DCPCTL_API dcpctl_job* dcpctl_describe(dcpctl_checkpoint* checkpoint, const uint64_t* entries, size_t count);

/* The result has, for each entry, a file of torch.save with it: the stored item if that is one, else one that is made of it. All of them are
 * objects. */
DCPCTL_API dcpctl_job* dcpctl_objects(dcpctl_checkpoint* checkpoint, const uint64_t* entries, size_t count);

/* A part of a tensor, and where it goes. */
typedef struct dcpctl_part {
  size_t size;
  uint64_t entry;
  const int64_t* starts;  /* one for each dim, as all lists here; NULL: zeros */
  const int64_t* counts;  /* indices; NULL: to the end of each dim */
  const int64_t* steps;   /* between indices, 1 or more; NULL: ones */
  void* to;               /* of the first element */
  const int64_t* strides; /* of the memory, in bytes, of any sign; NULL: row-major without gaps */
  const char* dtype;      /* of the memory: as Tensor.to converts one floating-point dtype to another; NULL: the entry's */
} dcpctl_part;

typedef struct dcpctl_read_options {
  size_t size;
  uint32_t threads; /* 0: as opened */
} dcpctl_read_options;

/* Reads all parts by one plan: in the order of the files, neighbouring ranges together, and no byte of a tensor twice, however many parts need
 * it; compressed tensors and what a map makes are read once whole, and once for all parts of them. A record's CRC is compared if the parts
 * cover the record. No two parts may share memory. After a failure or a cancel the memory holds anything; it is touched only if all parts
 * have been found to be right. `options` may be NULL. */
DCPCTL_API dcpctl_job* dcpctl_read(dcpctl_checkpoint* checkpoint, const dcpctl_part* parts, size_t count,
                                   const dcpctl_read_options* options);

/* --- saving: a folder that torch.distributed.checkpoint.load reads (save.h) */

/* A box of a tensor in memory, or an object. */
typedef struct dcpctl_shard {
  size_t size;
  dcpctl_text key;   /* flat name: "model.layers.0.weight" */
  const char* dtype; /* as torch spells it, without "torch."; NULL: an object */
  uint32_t rank;     /* dims of the tensor */
  int32_t requires_grad;
  const int64_t* shape;    /* of the whole tensor */
  const int64_t* offsets;  /* of the box; NULL: zeros */
  const int64_t* sizes;    /* of the box; NULL: the whole tensor */
  const int64_t* strides;  /* of the memory, in bytes; NULL: row-major without gaps */
  const void* data;        /* the box's first element; or a file of torch.save with the object */
  const dcpctl_text* path; /* in the state dict, outermost key first; joined with dots it is the key. NULL: just the key */
  size_t path_parts;
  uint64_t bytes; /* of an object */
} dcpctl_shard;

typedef struct dcpctl_save_options {
  size_t size;
  uint32_t rank, world_size; /* of the ranks that save together; a world size of 0 is 1 */
  int32_t replace;           /* not 0: replace an existing checkpoint once the new one is complete */
  int32_t skip_sync;         /* not 0: do not wait until it is on disk */
  uint32_t threads;          /* 0: the number of cores, clamped to 4..16 */
} dcpctl_save_options;

/* With several ranks the job exchanges texts, up to four times; every rank calls it with the same path and options, and its own shards.
 * An object is written by the first rank that has its key. `options` may be NULL. */
DCPCTL_API dcpctl_job* dcpctl_save(const char* path, const dcpctl_shard* shards, size_t count, const dcpctl_save_options* options);

/* In steps, for a plan and metadata that are the caller's: begin, append, complete, finish. Each rank has a file, `__RANK_0.distcp`, in a
 * folder that is hidden until it is finished. With several ranks dcpctl_begin exchanges texts, once. */
DCPCTL_API dcpctl_job* dcpctl_begin(const char* path, const dcpctl_save_options* options);
/* Appends an item for each shard to the file of this rank; the result has their places. Of a shard, the offsets and the path do not count; the
 * shape need not be given if the sizes are. Several jobs may append at once. */
DCPCTL_API dcpctl_job* dcpctl_append(dcpctl_saving* saving, const dcpctl_shard* shards, size_t count);
/* The file of this rank is complete: it gets on disk. No job may still append to it, nor can one afterwards. */
DCPCTL_API dcpctl_job* dcpctl_complete(dcpctl_saving* saving);
/* On rank 0, when all ranks are complete: writes `.metadata`, and gives the folder its name. */
DCPCTL_API dcpctl_job* dcpctl_finish(dcpctl_saving* saving, const void* metadata, size_t bytes);
/* Drops what was not finished, as soon as its jobs have ended: on rank 0 the folder. NULL is allowed. */
DCPCTL_API void dcpctl_saving_free(dcpctl_saving* saving);

#ifdef __cplusplus
}
#endif

#endif
