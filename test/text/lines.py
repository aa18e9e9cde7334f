# SPDX-License-Identifier: Apache-2.0
"""Lines of text for tests of tokenizers: words of many languages, code, numbers, emoji, odd characters and special tokens."""
import random, unicodedata


def words_of_languages():
    """Words by language: names of languages, countries, months and units in the data of CLDR, by the package babel."""
    import babel
    result = {}
    for name in ("ar bg bn ca cs da de el en es et fa fi fr gu he hi hr hu hy id is it ja ka kk km kn ko lo lt lv ml mn mr my ne nl pa pl "
                 "pt ro ru si sk sl sq sr sv sw ta te th tr uk ur uz vi yo zh am az be eu ga gl ps tk zu").split():
        locale = babel.Locale.parse(name)
        words = [*locale.territories.values(), *list(locale.languages.values())[:150], *locale.months["format"]["wide"].values(),
                 *locale.days["format"]["wide"].values()]
        result[name] = [w for w in words if w]
    return result


EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "🇯🇵🇫🇷", "❤️", "1️⃣", "🏳️‍🌈", "🧑🏿‍🚀", "☎️", "🫠", "👨‍❤️‍💋‍👨"]
CODE = ["def f(x): return x*2", "for (int i = 0; i < n; ++i) {", "\t\tif (a != b) {", "    return None", "x = [1, 2, 3]  # list", "<div class=\"a\">&nbsp;</div>",
        "SELECT * FROM t WHERE id=42;", "std::vector<int>& v", "0x7fFF_u32", "https://example.org/a?b=c&d=%20#e", "\\begin{align} a_{i}^2 &= \\frac{1}{2}\\\\",
        "{\"key\": [true, null, -1.5e-3]}", "git commit -m 'x' && echo \"$HOME\"", "don't I'LL we've They'Re it'S o'clock", "print(f'{x!r:>10}')"]
SPACES = [" ", "  ", "   ", "\t", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\u1680", "\u180e", "\ufeff", "\x85", "\x0b", "\r\n", "\n", "\n\n", " \n ", "\x1c"]
ODD = ["\0", "\x01", "\x7f", "\u00ad", "\u200d", "\u200e", "\ufffd", "\u0301", "e\u0301", "\u0041\u030a\u0327", "ﬁ", "①", "½", "Å", "ǅ", "İI", "ßẞ", "Σς", "\u1100\u1161\u11a8", "각",
       "\u0958", "\ufb1d", "\U0001d400\U0001d7d8", "\ue000", "\U000f0000", "\U0010ffff", "㍿", "ｱﾊﾟ", "Ⅷ", "٠١٢", "१२३", "〇", "\u0e33", "ำ", "\u0345", "꜀", "\u2581", "\u2581a", "Ġ", "ĠaĊ"]
SPECIAL = ["<|begin_of_text|>", "<|eot_id|>", "<s>", "</s>", "[CLS]", "[SEP]", "[MASK]", "<mask>", "<unk>", "<pad>", "<|im_start|>", "<|im_end|>", "<tool>", "<0x0A>", "##a"]


def make_lines(count, seed=1):
    """`count` lines; equal for equal seeds and equal packages."""
    rng = random.Random(seed)
    languages = words_of_languages()
    names = [unicodedata.name(chr(c)) for c in range(0x20, 0x3000) if unicodedata.name(chr(c), "")]
    lines = []

    def sentence(words):
        text = ""
        for i in range(rng.randint(1, 9)):
            text += rng.choice(words) + rng.choice([" ", " ", " ", " ", ", ", ". ", "; ", ": ", "-", "’", "!", "? ", " (", ") ", "…", "", "/"])
        return text.rstrip() if rng.random() < 0.8 else text

    def scalar():
        while True:
            c = rng.choice([rng.randrange(0x80), rng.randrange(0x800), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x20000), rng.randrange(0x110000)])
            # Unassigned characters have other properties in each version of Unicode.
            if unicodedata.category(chr(c)) not in ("Cs", "Cn"):
                return chr(c)

    def mixed():
        parts = []
        for _ in range(rng.randint(1, 12)):
            parts.append(rng.choice([lambda: rng.choice(rng.choice(list(languages.values()))), lambda: rng.choice(EMOJI), lambda: rng.choice(CODE),
                                     lambda: rng.choice(SPACES) * rng.randint(1, 4), lambda: rng.choice(ODD), lambda: rng.choice(SPECIAL),
                                     lambda: str(rng.randrange(10 ** rng.randint(1, 12))), lambda: scalar(), lambda: " "])())
        return "".join(parts)

    while len(lines) < count:
        kind = rng.random()
        if kind < 0.55:
            lines.append(sentence(rng.choice(list(languages.values()))))
        elif kind < 0.62:
            lines.append(" ".join(rng.choice(names).lower() for _ in range(rng.randint(1, 4))))
        elif kind < 0.70:
            lines.append(rng.choice(CODE) + rng.choice(["", "\n", " ", "\n    "]) + rng.choice(CODE))
        elif kind < 0.95:
            lines.append(mixed())
        elif kind < 0.99:
            lines.append("".join(scalar() for _ in range(rng.randint(1, 12))))
        else:
            lines.append(rng.choice(["", " ", "a" * 200, "é" * 70, "ab" * 90, " " * 130, "\n" * 40, "!?" * 60, "0" * 99, "日本" * 60]))
    return lines
