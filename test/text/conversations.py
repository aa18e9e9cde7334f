# SPDX-License-Identifier: Apache-2.0
"""Conversations for tests of chat templates, and the text which transformers makes of them."""

TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather of a town, \"now\" <today> & later.",
          "parameters": {"type": "object", "properties": {"town": {"type": "string", "description": "Name, e.g. Zürich"},
                                                          "days": {"type": "integer", "enum": [1, 2, 3]}}, "required": ["town"]}}}]
USER = {"role": "user", "content": "Hello, what's \"up\"?  "}
SYSTEM = {"role": "system", "content": "You are brief.\n"}
REPLY = {"role": "assistant", "content": " Grüße 你好 👋 <b>&amp;</b> {{ not a template }}\n"}
MORE = {"role": "user", "content": "And\tthen?\n\nI'm asking."}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "abc123456", "type": "function", "function": {"name": "weather", "arguments": {"town": "Zürich", "days": 2, "exact": True, "limit": None, "rate": 0.5}}}]}
CALL_TEXT = {"role": "assistant", "content": None, "tool_calls": [{"id": "abc123456", "type": "function", "function": {"name": "weather", "arguments": "{\"town\": \"Zürich\"}"}}]}
ANSWER = {"role": "tool", "name": "weather", "tool_call_id": "abc123456", "content": "{\"temp\": -1.5, \"sky\": \"grau\"}"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "One part."}, {"type": "text", "text": " Another."}]}
THOUGHT = {"role": "assistant", "content": "<think>\nHm, why?\n</think>\n\nBecause.", "reasoning_content": "Hm, why?"}
EMPTY = {"role": "user", "content": ""}

# messages, tools, add_generation_prompt, variables
CONVERSATIONS = [
    ([USER], None, True, {}), ([USER], None, False, {}), ([SYSTEM, USER], None, True, {}), ([SYSTEM, USER, REPLY], None, False, {}),
    ([USER, REPLY, MORE], None, True, {}), ([SYSTEM, USER, REPLY, MORE, REPLY, USER], None, True, {}), ([SYSTEM, USER], TOOLS, True, {}),
    ([USER], TOOLS, True, {}), ([SYSTEM, USER, CALL, ANSWER], TOOLS, True, {}), ([USER, CALL, ANSWER, REPLY, MORE], TOOLS, True, {}),
    ([USER, CALL_TEXT, ANSWER], TOOLS, True, {}), ([PARTS], None, True, {}), ([SYSTEM, PARTS, REPLY, MORE], None, True, {}),
    ([USER, THOUGHT, MORE], None, True, {}), ([USER, THOUGHT], None, False, {}), ([USER], None, True, {"enable_thinking": False}),
    ([SYSTEM, USER, THOUGHT, MORE], None, True, {"enable_thinking": True}), ([USER, USER], None, True, {}), ([REPLY], None, True, {}),
    ([EMPTY], None, True, {}), ([USER, EMPTY], None, False, {}), ([SYSTEM], None, True, {}), ([USER, {"role": "critic", "content": "?"}], None, True, {}),
    ([], None, True, {}), ([USER, CALL, ANSWER, ANSWER], TOOLS * 2, True, {"date_string": "26 Jul 2024", "reasoning_effort": "high"}),
]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


RECORDED = 1795867200  # seconds since 1970, UTC: what templates of recorded texts take for now


def stop_clock():
    """Templates which transformers renders from here on see RECORDED as the time."""
    import datetime
    from transformers.utils import chat_template_utils

    class Stopped(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(RECORDED, tz or datetime.timezone.utc)

    chat_template_utils.datetime = Stopped


def requests():
    """Conversations with all variables, as fk_tokens reads them."""
    return [[messages, tools, prompt, {**SPECIAL, "date_string": "01 Feb 2025", "strftime_now_is_fixed": True, **variables}] for messages, tools, prompt, variables in CONVERSATIONS]


def expected(template, request):
    """The text of transformers; None if the template refuses the conversation."""
    from transformers.utils.chat_template_utils import render_jinja_template
    messages, tools, prompt, variables = request
    try:
        texts, _ = render_jinja_template(conversations=[messages], chat_template=template, tools=tools, add_generation_prompt=prompt, **variables)
    except Exception:  # whatever a template raises refuses the conversation
        return None
    return texts[0]
