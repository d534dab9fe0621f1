// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def FuseAddends : Pass<"mebp-fuse-addends", "::mlir::func::FuncOp"> {
  let summary = "Let a linear layer add what is added to its result";
  let description = [{
    ```mlir
    %y = nn.linear(%x, %w)           %y = nn.linear(%x, %w addend %r)
    %z = nn.add(%y, %r)       to

    %t = nn.linear(%h, %b)           %y = nn.linear(%x, %w low %h, %b)
    %y = nn.linear(%x, %w addend %t)  to
    ```
    The same for nn.linear_input_gradient. One pass over memory less, and the sum may lie where %r did.
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def ReduceEarly : Pass<"mebp-reduce-early", "::mlir::func::FuncOp"> {
  let summary = "Make small values out of large ones as soon as possible";
  let description = [{
    ```mlir
    %dh = nn.linear_input_gradient(%dy, %w)        %dhA = nn.linear_input_gradient(%dy, %b)   // 8 features
    %dhA = nn.linear_input_gradient(%dy, %b)  to   %dA = nn.linear_weight_gradient(%dhA, %h)  // h is not read later
    %dA = nn.linear_weight_gradient(%dhA, %h)      %dh = nn.linear_input_gradient(%dy, %w)    // and may lie there
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def ChunkSequence : Pass<"mebp-chunk-sequence", "::mlir::ModuleOp"> {
  let summary = "Run layers in chunks along the sequence";
  let description = [{
    Turns the forward and backward functions of layers into loops over chunks of positions (StreamBP): activations
    exist for one chunk only; keys and values, and their cotangents, are kept whole, and of a recurrence's state what
    each chunk begins with. Each op says by SequenceOpInterface which rows it uses; one that does not is refused.

    ```mlir
    func.func @layer.forward(%x) { %k.. %v.. %o = nn.attention(%q, %k, %v) .. return %y }
    // becomes
    train.loop sequence 64 trip %t (%K = .., %V = .., %Y = ..) {
      %xc = train.slice %x[%t]   ...   %K1 = train.update %kc into %K[%t]   nn.attention(%qc, %K1, %V1)   ...
    }
    ```
  }];
  let options = [Option<"size", "size", "int64_t", "::mebp::Schedule().chunk", "positions in a chunk">,
                 Option<"batch", "batch", "int64_t", "1", "sequences side by side, at most">,
                 Option<"sequence", "sequence", "int64_t", "256", "positions of each, at most">];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def DeriveDecode : Pass<"mebp-derive-decode", "::mlir::ModuleOp"> {
  let summary = "Derive the programs that generate text";
  let description = [{
    From each block's forward, or the head's logits, a function for the next tokens of a sequence. What an op reads with
    everything before, as SequenceOpInterface says, is appended to a state, which the block keeps from step to step. An
    op with a window needs no more of it than that. What an op carries from row to row is a state, too. What reads later
    tokens is refused.

    ```mlir
    func.func @layer.forward(%x, ..) { %k.. %v.. %o, %lse = nn.attention(%q, %k, %v) .. }
    // becomes, beside it
    func.func @layer.decode(%x, .., %K {state "k"}, %V {state "v"}) {
      %k.. %K1 = nn.append(%K, %k) {capacity = 256}  %v.. %V1 = nn.append(%V, %v) {capacity = 256}
      %o, %lse = nn.attention(%q, %K1, %V1) {capacity = 256} ..
    }
    ```
  }];
  let options = [Option<"positions", "positions", "int64_t", "256", "that a prompt and its answer may have together">,
                 Option<"rows", "rows", "int64_t", "64", "of tokens in a step">,
                 Option<"batch", "batch", "int64_t", "1", "sequences side by side">];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def ProjectGradients : Pass<"mebp-project-gradients", "::mlir::ModuleOp"> {
  let summary = "Make gradients of matrices in a subspace, without their full shape";
  let description = [{
    Of a layer's trained matrix, the gradient is multiplied on its smaller side with a projector, an input of the
    program (GaLore). Two more programs multiply all of these gradients with thin matrices on the smaller and on the
    larger side, by which the runtime finds projectors. Gradients of anything else, and of what several blocks share,
    stay whole.

    ```mlir
    %dw = nn.linear_weight_gradient(%dy, %x) : .. -> tensor<1536x576xf32>
    // becomes, with an argument %projector : tensor<64x576xf32> {parameter "up.weight.projector"}
    %low = nn.linear(%x, %projector)
    %dw = nn.linear_weight_gradient(%dy, %low) : .. -> tensor<1536x64xf32>
    ```
  }];
  let options = [Option<"rank", "rank", "int64_t", "::mebp::Galore().rank", "dimensions of the subspace">];
  let dependentDialects = ["::mebp::train::TrainDialect"];
  let statistics = [Statistic<"projected", "projected", "gradients that are projected">];
}

def TileLoss : Pass<"mebp-tile-loss", "::mlir::ModuleOp"> {
  let summary = "Compute the head in tiles of rows and of the vocabulary";
  let description = [{
    Whole logits never exist: for a tile of rows, a loop over tiles of the vocabulary keeps a running softmax and, for
    the objective, the running product of the probabilities with the weight, so that log-probabilities and cotangent come
    from one sweep. A head that is trained, or has an adapter, takes a second one for the gradients.

    ```mlir
    %logp, %entropy, %dx = nn.log_probability_gradient(%x, %w, %labels, %coefficients)
    // becomes
    train.loop token_rows 128 trip %r (..) { train.loop weight_rows 2048 over %w trip %v (..) { .. } .. }
    ```
  }];
  let options = [Option<"rows", "rows", "int64_t", "::mebp::Schedule().lossRows", "token rows in a tile">,
                 Option<"columns", "columns", "int64_t", "::mebp::Schedule().lossColumns", "vocabulary rows in a tile">];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def NarrowActivations : Pass<"mebp-narrow-activations", "::mlir::func::FuncOp"> {
  let summary = "Store activations in bf16";
  let description = [{
    Activations, checkpoints and cotangents become bf16. Statistics of a softmax, sums over tokens, logits, parameters
    and their gradients stay in f32. Kernels compute in f32 and round where they write.

    ```mlir
    %o, %lse = nn.attention(%q, %k, %v) : (tensor<?x?x576xf32, #nn.tokens>, ..) -> (tensor<?x?x576xf32, #nn.tokens>, tensor<?x?x9xf32, #nn.tokens>)
    // becomes
    %o, %lse = nn.attention(%q, %k, %v) : (tensor<?x?x576xbf16, #nn.tokens>, ..) -> (tensor<?x?x576xbf16, #nn.tokens>, tensor<?x?x9xf32, #nn.tokens>)
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}
