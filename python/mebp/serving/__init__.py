# SPDX-License-Identifier: Apache-2.0
"""What serves a merged model elsewhere: Ollama, llama.cpp, LM Studio.

modelfile    the Modelfile that `ollama create` reads, beside a GGUF file
renderers    which of Ollama's own renderers and parsers fit a model
go_template  a chat template as Go's text/template, where a GGUF file cannot carry it
ollama       the `ollama` command
"""

OLDEST = "0.34.1"  # Ollama: what comes before may serve another template than the GGUF file's
