/* SPDX-License-Identifier: Apache-2.0
 *
 * mebp: train and run a compiled model.
 *
 * A bundle (NAME.mebp, made by mebpc) is mapped and never copied; its plan can be read before anything is mapped for
 * the model. A session is one training run over a bundle: it owns the adapter, the optimizer's state and one arena
 * that holds everything a step needs, so that nothing is allocated within a step.
 *
 *   mebp_bundle *bundle;  mebp_bundle_open("model.mebp", &bundle, &error);
 *   mebp_session_options options;  mebp_session_options_init(&options);
 *   mebp_session *session;  mebp_session_create(bundle, &options, &session, &error);
 *   mebp_step_result result;  mebp_step_result_init(&result);
 *   mebp_session_step(session, ids, labels, 1, 256, &result, &error);
 *   mebp_session_save_adapter(session, "adapter", &error);
 *
 * Ownership: a *_create or *_open function hands the caller an object that the matching *_destroy or *_close frees;
 * a bundle must outlive its sessions. Every returned `const char *` lives as long as the object it was asked from.
 * Threads: there is no global state but the choice of kernels (mebp_session_kernels). One session is used by one
 * thread at a time: a second one gets MEBP_BUSY and changes nothing. Sessions may run side by side.
 * Errors: every function that can fail returns a code and, where `error` is not NULL, fills in one readable line. What
 * fails has changed nothing, unless it says so. A pointer that is NULL where the comment does not allow it is refused,
 * and so is a number that is NaN, infinite or out of its range. Nothing throws, and memory that runs out is a code.
 *
 * Versions: functions and codes are only added, and structs grow at their end. Each struct that can grow begins with
 * its `size`, which its *_init function sets (in C++ the struct does so itself): the library reads and writes no more
 * of it than the caller has. So a program runs with a newer library than it was compiled with, and with an older one:
 * that one refuses an option that it does not know, and leaves zeros in a result that it cannot give. mebp_error and
 * mebp_batch never change.
 */
#ifndef MEBP_MEBP_H
#define MEBP_MEBP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* This header's version; CMakeLists.txt has the same. */
#define MEBP_VERSION_MAJOR 0
#define MEBP_VERSION_MINOR 1
#define MEBP_VERSION_PATCH 0
/* Of the C API: the number in libmebp.so.1. It changes only where programs have to be changed. */
#define MEBP_API_VERSION 1

/* C++ gives an enumeration room for its own numbers only, and a caller in C may give any: they shall be refused. */
#ifdef __cplusplus
#define MEBP_ANY_NUMBER : int
#define MEBP_SIZE_OF(type) = sizeof(type)
#else
#define MEBP_ANY_NUMBER
#define MEBP_SIZE_OF(type)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "0.1.0". */
const char *mebp_version(void);

typedef enum mebp_code {
  MEBP_OK = 0,
  MEBP_INVALID_ARGUMENT = 1, /* an invalid option, number, shape or pointer */
  MEBP_NOT_FOUND = 2,        /* a file or a name is missing */
  MEBP_CORRUPT = 3,          /* a bundle, adapter or state that is damaged or cut off */
  MEBP_INCOMPATIBLE = 4,     /* a newer format, or made for another bundle */
  MEBP_OUT_OF_RANGE = 5,     /* a token id beyond the vocabulary, a sequence beyond the compiled one */
  MEBP_OUT_OF_MEMORY = 6,
  MEBP_IO = 7,            /* the system refused to read or write; the message has its reason */
  MEBP_UNSUPPORTED = 8,   /* a kernel, device or option that this build does not have */
  MEBP_NOT_FINITE = 9,    /* the loss or the gradient became NaN or infinite; parameters are as they were */
  MEBP_BUSY = 10,         /* a folder or file that another run uses, or a session that another thread uses */
  MEBP_POISONED = 11,     /* a session whose step failed half applied: load the last good state */
  MEBP_CANCELLED = 12,    /* mebp_session_cancel ended the call; nothing has changed */
  MEBP_PAUSED = 13,       /* a session that has given its memory back: mebp_session_resume */
  MEBP_DISCONNECTED = 14, /* the other half of a split model cannot be reached, or is silent for too long */
  MEBP_REFUSED = 15       /* the other half is not the right one, or refuses this one */
} mebp_code;

typedef struct mebp_error {
  mebp_code code;
  char message[512]; /* one line of UTF-8, no final newline, safe for a terminal: names the thing and what to do */
} mebp_error;

typedef struct mebp_bundle mebp_bundle;
typedef struct mebp_session mebp_session;
struct mebp_transport;

/* ---- bundle ---------------------------------------------------------------------------------------------------- */

/* Opens the bundle folder `path`: checks versions, checksums, sizes and every program, maps no weights yet. */
mebp_code mebp_bundle_open(const char *path, mebp_bundle **out, mebp_error *error);
void mebp_bundle_close(mebp_bundle *bundle); /* NULL is allowed */

/* `length` bytes of an open file from `offset` on; 0: up to its end. */
typedef struct mebp_file_part {
  int descriptor;
  uint64_t offset, length;
} mebp_file_part;

/* The three files of a bundle, in one file or in several, such as an application's package. The weights begin at a
 * multiple of 4, at best of 16384. */
typedef struct mebp_bundle_files {
  size_t size MEBP_SIZE_OF(mebp_bundle_files);
  mebp_file_part program, manifest, weights; /* program.pb, manifest.json, weights.bin */
} mebp_bundle_files;
static inline void mebp_bundle_files_init(mebp_bundle_files *files) {
  memset((void *)files, 0, sizeof(*files));
  files->size = sizeof(*files);
}
/* Like mebp_bundle_open. The descriptors stay the caller's, who may close them when this returns. */
mebp_code mebp_bundle_open_files(const mebp_bundle_files *files, mebp_bundle **out, mebp_error *error);

/* Reads all of the weights, through a small buffer, and compares them with the checksum that mebpc left. Opening does
 * not: it would read gigabytes at every start. */
mebp_code mebp_bundle_check_weights(const mebp_bundle *bundle, mebp_error *error);
/* Both checks of the bundle folder `path`, and its tokenizer's files against the checksums in its manifest, if any. */
mebp_code mebp_bundle_validate(const char *path, mebp_error *error);

/* What a bundle is of a model: all of it, or the device's or the server's half. */
#define MEBP_WHOLE 0
#define MEBP_DEVICE_HALF 1
#define MEBP_SERVER_HALF 2

/* MeZO takes two losses instead of a gradient; without return_gradients, its session has no room for one. */
typedef enum mebp_optimizer MEBP_ANY_NUMBER {
  MEBP_SGD = 0,
  MEBP_ADAMW = 1,
  MEBP_MEZO = 2,
  MEBP_LION = 3,
  MEBP_ADAMW8BIT = 4, /* AdamW whose moments have eight bits an element, in blocks, as bitsandbytes has them */
  MEBP_GALORE = 5,    /* AdamW on gradients in a subspace, of bundles that were compiled for it */
  MEBP_QGALORE = 6    /* the same with weights and moments of eight bits and projectors of four */
} mebp_optimizer;

typedef struct mebp_bundle_info {
  size_t size MEBP_SIZE_OF(mebp_bundle_info);
  const char *name;
  uint32_t vocabulary, hidden, max_batch, max_sequence;
  uint32_t blocks, programs, weights, trainables;
  uint32_t lora_rank;
  double lora_alpha;      /* adapters are scaled by lora_alpha / lora_rank */
  uint64_t weights_bytes; /* of the mapped file */
  uint64_t peak_bytes;    /* as planned: anonymous and written memory of the whole process */
  uint64_t process_bytes; /* of it: the runtime itself */
  uint32_t max_positions; /* that a prompt and its answer may have together; 0: the bundle does not generate text */
  uint64_t generation_peak_bytes; /* as planned, of a process that only generates; 0: likewise */
  uint32_t half;                  /* MEBP_WHOLE or which one */
  uint64_t frame_bytes;           /* of a half: the largest frame to the other one, head and body */
  /* What the bundle was planned for, and the momentum of SGD; 0: none. A bundle for GaLore trains with its own alone. A
   * number that no optimizer has stands for one that this build does not know. */
  mebp_optimizer optimizer;
  double momentum;
  bool has_values;        /* of each token, by --value-head (mebp/sequences.h) */
  bool has_entropy_bonus; /* objectives may depend on the entropy, by --entropy-bonus */
  bool packs;             /* several samples into one row, by --packing (mebp/packing.h) */
  uint32_t classes;       /* that logits are of; 0: they are of the vocabulary */
  const char *task;       /* "causal", "classify", "token-classify" or "fill-mask": labels stand behind the rows that
                           * predict them with the first, in their own rows with the others */
  double rslora_alpha;    /* PEFT's lora_alpha with use_rslora, by --rslora: lora_alpha is it times the root of the
                           * rank; 0: without, where lora_alpha is PEFT's */
} mebp_bundle_info;
static inline void mebp_bundle_info_init(mebp_bundle_info *info) {
  memset((void *)info, 0, sizeof(*info));
  info->size = sizeof(*info);
}
mebp_code mebp_bundle_get_info(const mebp_bundle *bundle, mebp_bundle_info *out, mebp_error *error);

/* A tensor's name and shape. `rank` 1 means [columns]. */
typedef struct mebp_tensor_info {
  size_t size MEBP_SIZE_OF(mebp_tensor_info);
  const char *name;
  uint64_t rows, columns;
  uint32_t rank;
} mebp_tensor_info;
static inline void mebp_tensor_info_init(mebp_tensor_info *info) {
  memset((void *)info, 0, sizeof(*info));
  info->size = sizeof(*info);
}
/* Frozen weights under their Hugging Face names and shapes; index below info.weights. */
mebp_code mebp_bundle_weight_info(const mebp_bundle *bundle, uint32_t index, mebp_tensor_info *out, mebp_error *error);
/* Writes the dequantised weight, row-major in its Hugging Face shape, to out[rows * columns]. */
mebp_code mebp_bundle_weight_read(mebp_bundle *bundle, uint32_t index, float *out, mebp_error *error);
/* Trainable tensors under their PEFT keys; index below info.trainables. */
mebp_code mebp_bundle_trainable_info(const mebp_bundle *bundle, uint32_t index, mebp_tensor_info *out,
                                     mebp_error *error);
/* The gradient of such a one, as a step makes it: of a smaller shape where the bundle was compiled for GaLore. */
mebp_code mebp_bundle_gradient_info(const mebp_bundle *bundle, uint32_t index, mebp_tensor_info *out,
                                    mebp_error *error);
/* manifest.json as it lies in the bundle. */
const char *mebp_bundle_manifest_json(const mebp_bundle *bundle);
/* Blocks, programs, plan and sizes as JSON; computed once, owned by the bundle. */
const char *mebp_bundle_describe_json(mebp_bundle *bundle);

/* ---- session --------------------------------------------------------------------------------------------------- */

/* Of an option that is not given: the optimizer's own value. */
#define MEBP_OWN_DEFAULT (-1.0)

/* What computes: this runtime's kernels, or MLX on a GPU (Apple's or NVIDIA's) or on the CPU, which is for tests. MLX
 * is a library of its own that is opened when it is asked for, and has its own memory beside the arena. */
typedef enum mebp_backend MEBP_ANY_NUMBER { MEBP_CPU = 0, MEBP_MLX = 1, MEBP_MLX_CPU = 2 } mebp_backend;

/* Where a session's arena comes from. `allocate` gives memory that begins at a multiple of `alignment`, or NULL; what
 * is in it does not matter. `release` gets it back when the session is destroyed. */
typedef struct mebp_allocator {
  void *(*allocate)(void *user, uint64_t bytes, uint64_t alignment);
  void (*release)(void *user, void *memory, uint64_t bytes);
  void *user;
} mebp_allocator;

typedef enum mebp_log_level MEBP_ANY_NUMBER { MEBP_LOG_INFO = 0, MEBP_LOG_WARNING = 1 } mebp_log_level;

/* How GaLore finds a subspace: by sketches of the gradient, which is nowhere as a whole; or by an exact singular value
 * decomposition of it, formed for one matrix at a time, which takes long. */
#define MEBP_REFRESH_BY_SKETCH 0
#define MEBP_REFRESH_BY_SVD 1

#include "mebp/callbacks.h"

typedef struct mebp_session_options {
  size_t size MEBP_SIZE_OF(mebp_session_options);
  mebp_optimizer optimizer; /* MEBP_ADAMW */
  mebp_backend backend;     /* MEBP_CPU */
  double learning_rate;     /* 2e-4, whatever the optimizer */
  /* One that the optimizer does not have is refused; mebp_session_options_set sets them by their names. At first they
   * are MEBP_OWN_DEFAULT: betas 0.9 and 0.999, of Lion 0.9 and 0.99; epsilon 1e-8, of MEBP_GALORE 1e-6. Every optimizer
   * has a weight_decay, which is 0. */
  double beta1, beta2, epsilon, weight_decay;
  double perturbation;      /* MEBP_OWN_DEFAULT; of MeZO 1e-3: what its directions are multiplied with */
  double clip;              /* limit of the gradient's L2 norm over all trainables; 0: none */
  uint32_t threads;         /* 0: as many as the process may run on */
  bool reference_kernels;   /* the naive kernels, whatever MEBP_KERNELS says */
  bool forward_only;        /* losses and logits alone: no room for gradients, checkpoints, states */
  bool return_gradients;    /* make room so that mebp_session_gradients may be called */
  bool accumulate;          /* make room so that a step may have several micro-batches */
  void *memory;             /* the arena, 64-byte aligned; NULL: from the allocator */
  uint64_t memory_bytes;    /* of it; at least mebp_session_memory_bytes */
  uint64_t resident_limit;  /* of the mapped weights in memory, in bytes; 0: the plan's, or none */
  const char *spill_folder; /* checkpoints go into a nameless file here; NULL: where the plan spills,
                               into $TMPDIR or /var/tmp; else they stay in memory */
  const char *trace_file;   /* every kernel call, as Chrome's trace events; NULL: none */
  bool state_in_file;       /* trainables and optimizer state are spilled, too, written in every step */
  bool sample_memory;       /* look at the process's memory after every kernel call: slow */
  mebp_allocator allocator; /* of the arena, where `memory` is NULL; NULL: pages from the system */
  /* Told one line of what a session does by itself: what it runs with, and what its user should know (a warning). It is
   * called within the function that does it, on that thread. NULL: nobody is told. */
  void (*log)(void *user, mebp_log_level level, const char *line);
  void *log_user;
  bool generate_only;            /* generation alone (mebp_generation_create): no room for steps, losses and logits */
  double momentum;               /* SGD's; 0: none, and nothing is kept */
  double galore_scale;           /* of GaLore: what its updates are multiplied with; 0: 0.25 */
  double galore_update_interval; /* of GaLore: steps from one subspace to the next, a whole number; 0: 200 */
  /* With clip: a step without return_gradients and accumulate computes its gradients twice, first for their norm, then
   * clipped and applied one by one, so that no room is made to keep them. The results have the same bits as with clip
   * alone. An objective is called twice. */
  bool clip_recompute;
  double galore_refresh;       /* of GaLore: how subspaces are found, by one of MEBP_REFRESH_... */
  double galore_cos_threshold; /* of Q-GaLore: similarity of subspaces from which on they last longer; 0: 0.4 */
  /* Of a device's half of a split model: a stream to the server (mebp/transport.h), which the session opens and which
   * has to outlive it. NULL: the session computes nothing, but has the adapter. A server that is gone, or a network, is
   * tried again for so long; then the call gives MEBP_DISCONNECTED, and nothing has changed. 0: for a minute. */
  const struct mebp_transport *transport;
  uint32_t retry_ms;
  /* With accumulate, room for a sum of gradients whose factor comes later (mebp_session_end_sequence). */
  bool pending_gradients;
  /* Of such a half, with accumulate: micro-batches of a step under way at once, up to 64; 0: one. Each beyond the first
   * takes memory, a thread, and a stream of its own, further_transports[in_flight - 1]. */
  uint32_t in_flight;
  const struct mebp_transport *const *further_transports;
  /* Of a bundle with a value head, with accumulate: a second adapter of the head's own, with an optimizer state of its
   * own (mebp_session_use_value_adapter). */
  bool value_adapter;
  /* Of steps, gradients and sums of sequences; not with MeZO or clip_recompute. NULL: nobody is told. */
  mebp_on_gradient on_gradient;
  void *gradient_user;
  /* Blocks whose gradients may be out while the backward goes on, where they are applied at once: each takes as much
   * memory as one block's gradients. Where they are kept or summed all may, and this changes nothing. */
  uint32_t gradients_out;
  mebp_on_norm on_norm; /* NULL: nobody is told */
  void *norm_user;
  /* For each trainable of the bundle, whether its optimizer state and its update are here (mebp_bundle_own_part); NULL:
   * all. Of the others a step gives gradients, which are kept only to be summed or returned; whoever updates them
   * writes their values here. grad_norm and the squares of on_norm are of what is owned, so that clip needs on_norm. A
   * state has what is owned. Where gradients are projected, each session keeps the projectors of all. Not where no
   * gradient is taken, as with MeZO. */
  const bool *owned;
  /* Of a whole model on the CPU, without resident_limit: asked blocks_ahead blocks before each runs. NULL: all weights
   * are those of the bundle's file. */
  mebp_on_block on_block;
  void *block_user;
  uint32_t blocks_ahead;
  /* With accumulate: up to so many micro-batches of a step are summed in a binary tree (mebp_session_step_part). */
  uint32_t tree_batches;
  mebp_on_block_ready on_block_ready; /* with block_user; NULL: what on_block gave is there when it returns */
  /* In place of owned, the same by elements: of which the state and the update are here (mebp_bundle_own_elements).
   * Where a trainable is cut, its optimizer goes by elements, it is f32 or bf16, and ranges begin and end at multiples
   * of mebp_norm_tile, or at its end. A gradient of which a part is owned is kept whole. */
  const mebp_range *owned_elements;
  const struct mebp_shared_sums *shared_sums; /* mebp/distributed.h; it has to outlive the session. NULL: none */
} mebp_session_options;
/* The defaults of the first `size` bytes. */
void mebp_session_options_init_sized(mebp_session_options *options, size_t size);
static inline void mebp_session_options_init(mebp_session_options *options) {
  mebp_session_options_init_sized(options, sizeof(*options));
}

/* The arena that a session with these options needs; 0 where mebp_session_create would refuse them. Maps nothing. */
uint64_t mebp_session_memory_bytes(const mebp_bundle *bundle, const mebp_session_options *options);
/* The planned peak of a process that runs this session and nothing else: the arena and info.process_bytes; or 0. */
uint64_t mebp_session_peak_bytes(const mebp_bundle *bundle, const mebp_session_options *options);

mebp_code mebp_session_create(mebp_bundle *bundle, const mebp_session_options *options, mebp_session **out,
                              mebp_error *error);
void mebp_session_destroy(mebp_session *session); /* NULL is allowed */

/* ids[batch * sequence] and labels likewise, as in transformers: -100 is ignored, shifted inside. */
typedef struct mebp_batch {
  const int32_t *ids;
  const int32_t *labels;
  uint32_t batch, sequence; /* up to the bundle's; a shorter sequence costs its own length */
} mebp_batch;

typedef struct mebp_step_result {
  size_t size MEBP_SIZE_OF(mebp_step_result);
  double loss;      /* mean over the labels that count, of all micro-batches together */
  double grad_norm; /* L2 over all trainables, before clipping and the update; of MeZO the slope along its direction */
  uint64_t tokens;  /* labels that count */
  double seconds;
  uint64_t peak_bytes; /* the highest anonymous + written memory of this process seen so far, sampled by the session */
  uint64_t written_bytes; /* by this step, into the file in options.spill_folder */
} mebp_step_result;
static inline void mebp_step_result_init(mebp_step_result *result) {
  memset((void *)result, 0, sizeof(*result));
  result->size = sizeof(*result);
}

/* These take the fields of one mebp_batch. */
mebp_code mebp_session_loss(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                            uint32_t sequence, double *loss, mebp_error *error);
/* The log-probability, in nats, that the model gives each label: out[batch * sequence], each at its label's place, 0
 * where there is none. With `entropy`, that of the distribution which the label is from; NULL leaves it out. */
mebp_code mebp_session_log_probabilities(mebp_session *session, const int32_t *ids, const int32_t *labels,
                                         uint32_t batch, uint32_t sequence, float *out, float *entropy,
                                         mebp_error *error);
/* Needs options.return_gradients. Changes nothing, has no dropout; read them with mebp_session_read_gradient. */
mebp_code mebp_session_gradients(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                                 uint32_t sequence, double *loss, mebp_error *error);
/* Forward, backward and the update. Where this fails, nothing has changed: no parameter, no optimizer state, no count.
 * Without return_gradients, accumulate and clip, each gradient is applied as soon as it is there, which needs the least
 * memory; on a device that can be lost within a step (MEBP_IO) all are kept until the last one is there. Then
 * MEBP_NOT_FINITE guards against the loss alone: a gradient that overflows although the loss is finite is applied, and
 * shows in grad_norm. With any of the three, gradients stay until the step's end and are guarded too. With MEBP_MEZO,
 * which moves the parameters and moves them back, they are then as before but for the rounding of these two additions.
 * Where a disk or a device fails in the middle of the update, the message says that some parameters have changed, and
 * the session is poisoned: steps and saves give MEBP_POISONED until mebp_session_load_state has succeeded. */
mebp_code mebp_session_step(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                            uint32_t sequence, mebp_step_result *result, mebp_error *error);
/* One such step over `count` micro-batches, more than one only with options.accumulate. It is the step of one batch
 * with all their rows: each label that counts weighs the same, in whichever micro-batch it is, and a micro-batch
 * without any is allowed beside others. */
mebp_code mebp_session_step_batches(mebp_session *session, const mebp_batch *batches, uint32_t count,
                                    mebp_step_result *result, mebp_error *error);
/* An objective of your own, a function of the labels' log-probabilities: it returns the loss, and writes the loss's
 * derivative by each of them to `coefficients`, which holds zeros; both are as mebp_session_log_probabilities has them.
 * The mean loss is -sum / labels, with -1 / labels at each of them. It is called within the step, once for each
 * micro-batch that has a label, and must not call the session. The loss of a step is the sum over its micro-batches. */
typedef double (*mebp_objective)(void *user, const float *log_probabilities, uint32_t batch, uint32_t sequence,
                                 float *coefficients);
mebp_code mebp_session_objective_gradients(mebp_session *session, const int32_t *ids, const int32_t *labels,
                                           uint32_t batch, uint32_t sequence, mebp_objective objective, void *user,
                                           double *loss, mebp_error *error);
mebp_code mebp_session_objective_step(mebp_session *session, const mebp_batch *batches, uint32_t count,
                                      mebp_objective objective, void *user, mebp_step_result *result,
                                      mebp_error *error);
/* One optimizer update with gradients given by the caller, which are not clipped: gradients[i] has the i-th trainable's
 * elements. */
mebp_code mebp_session_apply_gradients(mebp_session *session, const float *const *gradients, mebp_error *error);
/* Logits of rows [first, first + count) of each batch item: out[batch * count * vocabulary], or of
 * classes where the bundle has some. */
mebp_code mebp_session_logits(mebp_session *session, const int32_t *ids, uint32_t batch, uint32_t sequence,
                              uint32_t first, uint32_t count, float *out, mebp_error *error);

/* Ends the loss, gradients, step or logits that another thread runs: that call returns MEBP_CANCELLED at the next
 * kernel, and nothing has changed but that the last gradients are gone. Where none runs, the request waits for the next
 * one and ends it so; a call that is refused leaves it waiting. May be called at any time while the session lives, from
 * a signal's handler, too, and does not wait. A step that applies each gradient at once cannot be left once it has
 * applied the first, about a third of its way: it is finished, and the request waits for the next call. With MeZO,
 * parameters are moved back, which leaves the rounding of two additions. */
void mebp_session_cancel(mebp_session *session);
/* Takes back a request that still waits: one that came too late for what it was to end. A host that asks its own flag
 * whether to go on loses none in this order: clear, ask the flag, step; whoever ends it sets the flag, then cancels.
 * May be called whenever mebp_session_cancel may. */
void mebp_session_clear_cancel(mebp_session *session);

mebp_code mebp_session_set_learning_rate(mebp_session *session, double learning_rate, mebp_error *error);
/* Updates applied so far; any thread may ask, at any time. */
uint64_t mebp_session_steps(const mebp_session *session);
/* How often an optimizer that projects gradients has looked for the subspace of a matrix, over all matrices, and how
 * often it would have in as many steps with the first interval kept, as GaLore has it; 0 and 0 of other optimizers. */
mebp_code mebp_session_refreshes(const mebp_session *session, uint64_t *made, uint64_t *of_fixed_interval,
                                 mebp_error *error);
/* Of half a split model: what has crossed since the session was made, frames' heads and commands apart. */
typedef struct mebp_session_crossed {
  size_t size MEBP_SIZE_OF(mebp_session_crossed);
  uint64_t sent_bytes, received_bytes;
  uint64_t sent_messages, received_messages;
} mebp_session_crossed;
/* All zeros of a whole model. */
mebp_code mebp_session_count_crossed(const mebp_session *session, mebp_session_crossed *out, mebp_error *error);
/* The family of kernels that runs: "reference", "portable", "avx2", "avx512", "avx512_bf16", "amx_bf16", "neon" or
 * "neon_bf16"; with MLX "mlx". On the CPU that is the best that it has, or what the environment's MEBP_KERNELS names,
 * which is read once a process; a name that is not there makes mebp_session_create fail. "" of a paused session.
 * Any thread may ask. */
const char *mebp_session_kernels(const mebp_session *session);

/* Copies of the index-th trainable or of its last gradient (a step's after clipping); `count` must be its number of
 * elements. */
mebp_code mebp_session_read_trainable(const mebp_session *session, uint32_t index, float *out, uint64_t count,
                                      mebp_error *error);
mebp_code mebp_session_write_trainable(mebp_session *session, uint32_t index, const float *values, uint64_t count,
                                       mebp_error *error);
mebp_code mebp_session_read_gradient(const mebp_session *session, uint32_t index, float *out, uint64_t count,
                                     mebp_error *error);

/* A PEFT folder: adapter_model.safetensors and adapter_config.json. Written whole or not at all: another adapter there
 * is replaced by exchanging folders, and refused where the folder has folders of its own. Read from f32, bf16 or f16,
 * and refused by the name of the field or tensor where it is not plain LoRA of the bundle's rank, alpha and layers; the
 * session is then as it was. */
mebp_code mebp_session_save_adapter(const mebp_session *session, const char *folder, mebp_error *error);
mebp_code mebp_session_load_adapter(mebp_session *session, const char *folder, mebp_error *error);
/* Everything that a bitwise equal continuation needs. Written to a new file, synced and renamed; the state that this
 * session saved there before, or was loaded from, stays beside it. `user` travels along (the data's position and random
 * state of whoever drives the session). */
mebp_code mebp_session_save_state(const mebp_session *session, const char *folder, const void *user,
                                  uint64_t user_bytes, mebp_error *error);
/* Takes the newest state in `folder`, or the one before it where that is damaged. `user` may be NULL; *user_bytes is
 * its room before the call and the stored size after it, also where the room does not do (MEBP_INVALID_ARGUMENT). The
 * family of kernels is the state's from here on, if this machine has it and no session beside this one uses another. */
mebp_code mebp_session_load_state(mebp_session *session, const char *folder, void *user, uint64_t *user_bytes,
                                  mebp_error *error);

/* Saves the state, as mebp_session_save_state does, and gives the session's memory back to the system: the arena, the
 * threads, the file in spill_folder, and the pages of the weights. What remains is the opened bundle. Until
 * mebp_session_resume, other calls give MEBP_PAUSED; destroying, cancelling and asking for the steps are allowed.
 * options.memory is the caller's to use or to unmap meanwhile; it has to be back, at the same address, for the
 * resumption. Where saving fails, the session is not paused. Refused while a generation of the session exists, and
 * where options.trace_file is given. */
mebp_code mebp_session_pause(mebp_session *session, const char *folder, const void *user, uint64_t user_bytes,
                             mebp_error *error);
/* Takes memory again and continues, bit for bit, from the state that the pause saved; gradients of before are gone.
 * Where this fails, the session stays paused, and it may be tried again. In another process, mebp_session_load_state
 * takes the same state. */
mebp_code mebp_session_resume(mebp_session *session, mebp_error *error);
bool mebp_session_is_paused(const mebp_session *session);

/* Whether a step has failed half applied (mebp_session_step). */
bool mebp_session_is_poisoned(const mebp_session *session);
/* Compares what saving there will take at most (NULL: nothing is saved) with what the disks have left: MEBP_IO where
 * that is too little. */
mebp_code mebp_session_check_space(const mebp_session *session, const char *state_folder, const char *adapter_folder,
                                   mebp_error *error);
/* One line on the state that was loaded last, for the user: that it is the older of two, or that other kernels run than
 * would have, or than did. "" where there is nothing to say, and of a paused session. Any thread may ask. */
const char *mebp_session_notes(const mebp_session *session);
/* The steps of the state that would be loaded from `folder`; MEBP_NOT_FOUND where there is none. */
mebp_code mebp_state_steps(const char *folder, uint64_t *steps, mebp_error *error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "mebp/adapters.h"
#include "mebp/calibration.h"
#include "mebp/devices.h"
#include "mebp/distributed.h"
#include "mebp/generation.h"
#include "mebp/locks.h"
#include "mebp/optimizer_options.h"
#include "mebp/packing.h"
#include "mebp/sequences.h"
#include "mebp/session_options.h"

#endif /* MEBP_MEBP_H */
