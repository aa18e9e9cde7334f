# SPDX-License-Identifier: Apache-2.0
"""make_tokenizers.py FOLDER: small tokenizers with the normalizers, expressions and processors of well-known models, trained on lines.py by
the packages `tokenizers` and `sentencepiece`. Each is FOLDER/NAME.json."""
import io, json, pathlib, sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers as pre, processors, trainers

from lines import make_lines

GPT2 = ""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
SIZE = 1900


def special(*names):
    return [AddedToken(n, special=True, normalized=False) for n in names]


def around(tok, single):
    ids = {p for p in single.split() if not p.startswith("$")}
    return processors.TemplateProcessing(single=single, special_tokens=[(p, tok.token_to_id(p)) for p in sorted(ids)])


def byte_bpe(lines, split, tokens, normalizer=None, single=None, prefix_space=False, **model):
    tok = Tokenizer(models.BPE(**model))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre.Sequence([*split, pre.ByteLevel(add_prefix_space=prefix_space, use_regex=False)]) if split else pre.ByteLevel(add_prefix_space=prefix_space)
    trainer = trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=sorted(pre.ByteLevel.alphabet()), show_progress=False)
    tok.train_from_iterator(lines, trainer)
    tok.add_special_tokens(tokens)
    tok.decoder = decoders.ByteLevel()
    byte = processors.ByteLevel(trim_offsets=False)
    tok.post_processor = processors.Sequence([byte, around(tok, single)]) if single else byte
    return tok


def isolated(*expressions):
    return [pre.Split(Regex(e), "isolated") for e in expressions]


def llama3(lines):
    return byte_bpe(lines, isolated(LLAMA3), special("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>"), single="<|begin_of_text|> $A", ignore_merges=True)


def qwen2(lines):
    tok = byte_bpe(lines, isolated(QWEN2), special("<|endoftext|>", "<|im_start|>", "<|im_end|>"), normalizer=normalizers.NFC())
    tok.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("<think>", normalized=False)])
    return tok


def gpt2(lines):
    tok = byte_bpe(lines, None, special("<|endoftext|>"))
    tok.add_tokens([AddedToken("<mask>", lstrip=True), AddedToken("[MASK]", rstrip=True), AddedToken("ab", single_word=True), AddedToken("  ", normalized=True)])
    return tok


def roberta(lines):
    tok = byte_bpe(lines, None, special("<s>", "</s>", "<pad>", "<unk>"), prefix_space=True)
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tok.post_processor = processors.RobertaProcessing(("</s>", tok.token_to_id("</s>")), ("<s>", tok.token_to_id("<s>")), add_prefix_space=True)
    return tok


def gpt_oss(lines):
    return byte_bpe(lines, isolated(O200K), special("<|start|>", "<|end|>", "<|im_end|>"))


def deepseek_v3(lines):
    return byte_bpe(lines, isolated(*DEEPSEEK), special("<｜begin▁of▁sentence｜>", "<｜User｜>"), single="<｜begin▁of▁sentence｜> $A", normalizer=normalizers.Sequence([]))


def starcoder(lines):
    return byte_bpe(lines, [pre.Digits(individual_digits=True)], special("<|endoftext|>", "<fim_prefix>"))


def clip(lines):
    tok = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>", continuing_subword_prefix=""))
    tok.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tok.pre_tokenizer = pre.Sequence([pre.Split(Regex(r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
                                      pre.ByteLevel(add_prefix_space=False)])
    alphabet = sorted(pre.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=alphabet, end_of_word_suffix="</w>", special_tokens=special("<|startoftext|>", "<|endoftext|>"), show_progress=False)
    tok.train_from_iterator(lines, trainer)
    tok.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False, add_prefix_space=False)
    tok.decoder = decoders.BPEDecoder(suffix="</w>")
    return tok


def sentencepiece_bpe(lines, tokens, **model):
    """Merges across a whole text, with bytes in place of unknown characters."""
    names = [*tokens, *(f"<0x{i:02X}>" for i in range(256))]
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.pre_tokenizer = pre.Metaspace()
    tok.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=SIZE, limit_alphabet=400, special_tokens=names, show_progress=False))
    state = json.loads(tok.to_str())
    state["model"].update(byte_fallback=True, fuse_unk=True, **model)
    state["added_tokens"] = [t for t in state["added_tokens"] if not t["content"].startswith("<0x")]
    state["pre_tokenizer"] = None
    return Tokenizer.from_str(json.dumps(state))


def llama2(lines):
    tok = sentencepiece_bpe(lines, ["<unk>", "<s>", "</s>"])
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.post_processor = around(tok, "<s> $A")
    return tok


def mistral(lines):
    tok = sentencepiece_bpe(lines, ["<unk>", "<s>", "</s>"])
    tok.pre_tokenizer = pre.Metaspace(prepend_scheme="first", split=False)
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.post_processor = around(tok, "<s> $A")
    return tok


def gemma(lines):
    tok = sentencepiece_bpe(lines, ["<pad>", "<eos>", "<bos>", "<unk>"])
    tok.add_tokens([AddedToken(t, normalized=False) for t in ("\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁", "<unused0>")])
    tok.normalizer = normalizers.Replace(" ", "▁")
    tok.pre_tokenizer = pre.Split(" ", "merged_with_previous")
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tok.post_processor = around(tok, "<bos> $A")
    return tok


def sentencepiece_unigram(lines, **options):
    import sentencepiece, sentencepiece.sentencepiece_model_pb2 as pb
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([l.replace("\n", " ") for l in lines if l.strip() and "\0" not in l]), model_writer=out, vocab_size=SIZE,
                                             model_type="unigram", num_threads=1, hard_vocab_limit=False, minloglevel=2, character_coverage=0.98, **options)
    proto = pb.ModelProto.FromString(out.getvalue())
    return [(p.piece, p.score) for p in proto.pieces], proto.normalizer_spec.precompiled_charsmap


def xlm_roberta(lines):
    pieces, table = sentencepiece_unigram(lines, normalization_rule_name="nmt_nfkc")
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces[3:], ("<mask>", 0.0)]
    tok = Tokenizer(models.Unigram(vocab, unk_id=3))
    tok.normalizer = normalizers.Sequence([normalizers.Precompiled(table), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace(prepend_scheme="always")])
    tok.decoder = decoders.Metaspace()
    tok.add_special_tokens(special("<s>", "<pad>", "</s>", "<unk>") + [AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tok.post_processor = around(tok, "<s> $A </s>")
    return tok


def t5(lines):
    pieces, table = sentencepiece_unigram(lines, normalization_rule_name="nmt_nfkc")
    tok = Tokenizer(models.Unigram([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces[3:]], unk_id=2))
    tok.normalizer = normalizers.Precompiled(table)
    tok.pre_tokenizer = pre.Metaspace(prepend_scheme="always")
    tok.decoder = decoders.Metaspace()
    tok.add_special_tokens(special("<pad>", "</s>", "<unk>"))
    tok.post_processor = around(tok, "$A </s>")
    return tok


def byte_unigram(lines):
    pieces, table = sentencepiece_unigram(lines, byte_fallback=True, normalization_rule_name="nfkc")
    tok = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre.Sequence([pre.Metaspace(prepend_scheme="first"), pre.Punctuation("merged_with_previous"), pre.Digits()])
    tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    return tok


def bert(lines, lowercase=True):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tok.pre_tokenizer = pre.BertPreTokenizer()
    tok.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=SIZE, limit_alphabet=700, special_tokens=special("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), show_progress=False))
    tok.decoder = decoders.WordPiece()
    tok.post_processor = around(tok, "[CLS] $A [SEP]")
    return tok


def bert_cased(lines):
    tok = bert(lines, lowercase=False)
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tok


def words(lines):
    tok = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tok.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tok.pre_tokenizer = pre.Whitespace()
    tok.train_from_iterator(lines, trainers.WordLevelTrainer(vocab_size=SIZE, special_tokens=special("<unk>", "<pad>"), show_progress=False))
    return tok


KINDS = [llama3, qwen2, gpt2, roberta, gpt_oss, deepseek_v3, starcoder, clip, llama2, mistral, gemma, xlm_roberta, t5, byte_unigram, bert, bert_cased, words]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    lines = make_lines(4000, seed=2)  # other lines than the test's
    for make in KINDS:
        tok = make(lines)
        (folder / f"{make.__name__}.json").write_text(tok.to_str())
        print(make.__name__, tok.get_vocab_size(), flush=True)


if __name__ == "__main__":
    main()
