"""llama.cpp's own server (as xllamacpp 2026.10 has it, its HTTP included) over a model of random weights that is made
here (gguf 0.19): it prints its base URL and serves until its input ends. Words of arguments turn flags on: metrics."""
import os
import sys
import tempfile

try:
    import gguf
    import numpy
    import xllamacpp
except ImportError:
    sys.exit(77)

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 4, 128, 4096
TEMPLATE = "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}\n{% endfor %}<|assistant|>\n"


def model(path):
    out, random = gguf.GGUFWriter(path, "llama"), numpy.random.default_rng(7)
    words = ["\u2581the", "\u2581market", "\u2581of", "e", "t", "a", "\u2581"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + words
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(words)
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("llama")
    out.add_token_list([t.encode() for t in tokens])
    out.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(words))])
    out.add_token_types(kinds)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_chat_template(TEMPLATE)

    def weights(name, *shape):
        out.add_tensor(name, (random.standard_normal(shape) * 0.1).astype(numpy.float32))

    ones = numpy.ones(WIDTH, numpy.float32)
    weights("token_embd.weight", len(tokens), WIDTH)
    weights("output.weight", len(tokens), WIDTH)
    out.add_tensor("output_norm.weight", ones)
    for i in range(LAYERS):
        out.add_tensor(f"blk.{i}.attn_norm.weight", ones)
        out.add_tensor(f"blk.{i}.ffn_norm.weight", ones)
        for name in "attn_q", "attn_k", "attn_v", "attn_output":
            weights(f"blk.{i}.{name}.weight", WIDTH, WIDTH)
        weights(f"blk.{i}.ffn_gate.weight", INNER, WIDTH)
        weights(f"blk.{i}.ffn_up.weight", INNER, WIDTH)
        weights(f"blk.{i}.ffn_down.weight", WIDTH, INNER)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


with tempfile.TemporaryDirectory() as folder:
    params = xllamacpp.CommonParams()
    params.model.path = os.path.join(folder, "tiny.gguf")
    model(params.model.path)
    params.model_alias = ["tiny"]
    params.port, params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 0, CONTEXT, 2, 1
    params.endpoint_metrics = "metrics" in sys.argv
    server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)  # nothing of the server is to be waited for
