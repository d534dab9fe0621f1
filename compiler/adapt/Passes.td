// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def AssignStorage : Pass<"mebp-assign-storage", "::mlir::ModuleOp"> {
  let summary = "Decide how each frozen weight is stored";
  let description = [{
    ```mlir
    nn.parameter @lm_head.weight : tensor<49152x576xf32>
    // becomes, with the options matrices=int4 rules=lm_head=int8
    nn.parameter @lm_head.weight : tensor<49152x576xf32> {storage = "int8"}
    ```
  }];
  let options = [
    Option<"matrices", "matrices", "std::string", "::mebp::format::nameOf(::mebp::Storage().matrices)",
           "of layers: f32, bf16, int8, int4, int4-sym or file">,
    Option<"embeddings", "embeddings", "std::string", "::mebp::format::nameOf(::mebp::Storage().embeddings)",
           "of tables and the head">,
    ListOption<"rules", "rules", "std::string", "PATTERN=STORAGE for the layers that the pattern matches">
  ];
}

/// Of what trains some layers alone (Layers.h).
class OptionsOfLayers {
  list<Option> options = [
    Option<"lastLayers", "last-layers", "int64_t", "0", "train so many last layers alone; 0: the range">,
    Option<"fromLayer", "from-layer", "int64_t", "0", "the first of the range of layers to train">,
    Option<"toLayer", "to-layer", "int64_t", "-1", "its last; -1: the model's last">
  ];
}
def LayerOptions : OptionsOfLayers;

def AddLora : Pass<"mebp-add-lora", "::mlir::ModuleOp"> {
  let summary = "Add low-rank adapters to the chosen linear layers";
  let description = [{
    ```mlir
    %y = nn.linear(%x, %w)
    // becomes, with A and B as trainable parameters of the block
    %h = nn.linear(%x, %A)
    %u = nn.linear(%h, %B) {alpha = 2.0}
    %y = nn.linear(%x, %w addend %u)
    ```
    With dropout, A reads `nn.dropout(%x)`, whose salt counts the block's adapters.
  }];
  let options = !listconcat([
    Option<"rank", "rank", "int64_t", "::mebp::Lora().rank", "inner size of the adapters">,
    Option<"alpha", "alpha", "double", "::mebp::Lora().alpha", "adapters are scaled by alpha / rank">,
    Option<"isRankStabilized", "rslora", "bool", "::mebp::Lora().isRankStabilized", "by alpha / sqrt(rank) instead">,
    Option<"dropout", "dropout", "double", "::mebp::Lora().dropout", "the share of what A reads that is zeroed">,
    ListOption<"targets", "targets", "std::string",
               "names of linear layers as PEFT takes them; all-linear: every one but the head">
  ], LayerOptions.options);
  let dependentDialects = ["::mebp::train::TrainDialect"];
  let statistics = [Statistic<"adapted", "adapted", "linear layers with an adapter">];
}

def AddTokenRows : Pass<"mebp-add-token-rows", "::mlir::ModuleOp"> {
  let summary = "Train the rows of new tokens in the embedding and the head";
  let description = [{
    Of a module that has new tokens (mebp.new_tokens, the first and their number):

    ```mlir
    %y = nn.embedding(%ids, %w)
    %logits = nn.linear(%x, %w)
    // becomes, with R as a trainable parameter of both blocks, and zeros in its place in %w
    %s = nn.embedding(%ids, %S)
    %y = nn.linear_input_gradient(%s, %R addend nn.embedding(%ids, %w))
    %logits = nn.linear(%x, %w addend nn.linear(nn.linear(%x, %R), %S))
    ```
  }];
  let options = [Option<"beside", "beside", "std::string", "\"lora\"", "what else is trained: lora is the one that fits">];
  let dependentDialects = ["::mebp::train::TrainDialect"];
  let statistics = [Statistic<"adapted", "adapted", "places that read rows of new tokens">];
}

/// Adds a remote adapter (RemoteAdapters.h). `own`: what not every one takes.
class RemoteAdapterPass<string argument, list<Option> own = []> : Pass<argument, "::mlir::ModuleOp"> {
  let options = !listconcat([
    Option<"rankDown", "rank-down", "int64_t", "::mebp::Adapters().rankDown", "columns of u">,
    Option<"shareA", "share-a", "bool", "false", "one A for layers that read one value">,
    Option<"firstLayer", "first-layer", "int64_t", "0", "of the layers to adapt">,
    Option<"lastLayer", "last-layer", "int64_t", "-1", "of these; -1: the model's last">,
    Option<"seed", "seed", "uint64_t", "0", "of A and B">,
    ListOption<"targets", "targets", "std::string", "names of linear layers as PEFT takes them">
  ], own);
  let dependentDialects = ["::mebp::train::TrainDialect"];
  let statistics = [Statistic<"adapted", "adapted", "linear layers with an adapter">];
}

def AddPrivateLora : RemoteAdapterPass<"mebp-add-private-lora", [
    Option<"rankUp", "rank-up", "int64_t", "::mebp::Adapters().rankUp", "columns of v">
  ]> {
  let summary = "Add adapters whose trained factor may be in another place than the layer";
  let description = [{
    ```mlir
    %y = nn.linear(%x, %w)
    // becomes three functions, with M alone trainable
    compress:  %u = nn.linear(%x, %A)
    adapt:     %v = nn.linear(%u, %M)
    forward:   %t = nn.linear(%v, %B)
               %y = nn.linear(%x, %w addend %t)
    ```
  }];
}

def AddStarts : Pass<"mebp-add-starts", "::mlir::ModuleOp"> {
  let summary = "Let several samples share a row of tokens";
  let description = [{
    ```mlir
    func.func @layer.forward(%x, %w) { .. %o, %lse = nn.attention(%q, %k, %v) .. }
    // becomes, with the rows where samples start as a port of the batch
    func.func @layer.forward(%x, %w, %starts) { .. %o, %lse = nn.attention(%q, %k, %v, %starts) .. }
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def AddRouterLoss : Pass<"mebp-add-router-loss", "::mlir::ModuleOp"> {
  let summary = "Let routers have a loss, by how evenly experts are used";
  let description = [{
    ```mlir
    func.func @layer.forward(%x, %w) { .. %weights, %ids = nn.route(%logits) .. return %y }
    // becomes, with the tokens that count as a port of the batch
    func.func @layer.forward(%x, %w, %counted) {
      .. %weights, %ids = nn.route(%logits)
      %scores, %counts = nn.expert_load(%logits, %ids, %counted) ..
      return %y, %scores, %counts
    }
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def AddValueHead : Pass<"mebp-add-value-head", "::mlir::ModuleOp"> {
  let summary = "Let the head give a value of each row, by a linear layer that is trained";
  let description = [{
    ```mlir
    func.func @head.log_probabilities(%x, %labels, %w) { return nn.log_probability(%x, %w, %labels) }
    // becomes, with w_v and b_v as trainable parameters of the head, zeros at first
    func.func @head.log_probabilities(%x, %labels, %w, %w_v, %b_v) {
      %values = nn.linear(%x, %w_v bias %b_v)
      return nn.log_probability(%x, %w, %labels), %values
    }
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def TrainParameters : Pass<"mebp-train-parameters", "::mlir::ModuleOp"> {
  let summary = "Make parameters of the model themselves trainable";
  let description = [{
    ```mlir
    nn.parameter @model.norm.weight : tensor<576xf32> {storage = "f32"}
    // becomes, and its readers ask for its gradient
    nn.parameter @model.norm.weight : tensor<576xf32> {storage = "f32", trainable}
    ```
  }];
  let options = !listconcat([
    ListOption<"targets", "targets", "std::string", "patterns of names of parameters or layers, or all-linear">,
    Option<"changesInt8", "changes-int8", "bool", "false", "the optimizer changes weights of eight bits">
  ], LayerOptions.options);
  let dependentDialects = ["::mebp::nn::NNDialect", "::mebp::train::TrainDialect"];
}
