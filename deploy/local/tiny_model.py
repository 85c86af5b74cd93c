"""Write a two-layer Llama without weights (vLLM makes random ones), and a tokenizer of bytes: tiny_model.py FOLDER"""
import json
import os
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
special = ["<|pad|>", "<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>"]
tok = Tokenizer(models.BPE())
tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tok.decoder = decoders.ByteLevel()
# Nothing to learn from: the alphabet of bytes, and two-letter pairs.
letters = "etaoinshrdlucmfwypvbgkjqxz"
text = [" ".join(a + b for a in letters for b in letters), " ".join(" " + a + b for a in letters for b in letters)] * 2
tok.train_from_iterator(text, trainers.BpeTrainer(
    vocab_size=4096, min_frequency=1, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
tok.save(f"{out}/tokenizer.json")

template = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] or '' }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write(name, **value):
    with open(f"{out}/{name}", "w") as f:
        json.dump(value, f, indent=1)


write("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast", bos_token="<|begin|>", eos_token="<|end|>",
      pad_token="<|pad|>", clean_up_tokenization_spaces=False, model_max_length=16384, chat_template=template)
write("generation_config.json", bos_token_id=1, eos_token_id=[2, 4], pad_token_id=0)
write("config.json", architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=128, intermediate_size=256,
      num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32, vocab_size=tok.get_vocab_size(),
      max_position_embeddings=16384, rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu", tie_word_embeddings=False,
      attention_bias=False, mlp_bias=False, bos_token_id=1, eos_token_id=2, pad_token_id=0, torch_dtype="bfloat16")
