"""GGUF files (llama.cpp) in and out: the file, its block types, its vocabulary, and one table an architecture."""
