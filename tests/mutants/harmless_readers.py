"""Mutants of the readers that no test can tell from the source, each with the reason."""

from __future__ import annotations

from typing import Final

_NO_SUCH_TEXT = "the pattern lets no text in that has this letter"
_SAID_ANEW = "it is caught below, where the message is another"
_A_BYTE = "the bound is one more or less, and what it bounds is no less bounded"
_NO_BACKSLASH = "JSON does not begin with a backslash"
_CUT_SHORT = "what is cut short is refused by whoever decodes it"
_FALSE = "it is only asked whether it is true"
_LONGER_WAY = "the same comes of it the longer way"
_FIRST_ERROR = "whoever asks tells the error that there was before"
_BEYOND = "such an amount is beyond what is told apart, on the same side"
_REMEMBERED = "it only says what is remembered"
_NO_NAME = "each has a pool of its own, in which nobody asks for the file by its name"
_BY_DEFAULT = "so it is by default"
_INLINED = "it has no attribute of its own, and is asked for none"
_LARGEST = "the largest amount is the same, cut or not"

#: (function, line that the mutant puts in) → why it does no harm.
HARMLESS_READERS: Final[dict[tuple[str, str], str]] = {
    (
        "arranger.api.quantity.read_exponent",
        'digits = text.lstrip("XX+-XX").lstrip("0")',
    ): _NO_SUCH_TEXT,
    (
        "arranger.api.quantity.read_exponent",
        'digits = text.lstrip("+-").lstrip("XX0XX")',
    ): _NO_SUCH_TEXT,
    (
        "arranger.api.parsing.json_text.parse_json",
        'if first in "XX[{XX":',
    ): _NO_SUCH_TEXT,
    (
        "arranger.api.parsing.json_text.parse_json",
        'elif first in "XX]}XX":',
    ): _NO_SUCH_TEXT,
    (
        "arranger.api.parsing.timestamps.parse_time",
        "raise ParseError(None)",
    ): _SAID_ANEW,
    (
        "arranger.api.parsing.timestamps.parse_time",
        'raise ParseError("XXtoo longXX")',
    ): _SAID_ANEW,
    (
        "arranger.api.parsing.timestamps.parse_time",
        'raise ParseError("TOO LONG")',
    ): _SAID_ANEW,
    (
        "arranger.api.parsing.errors.shown",
        'return repr(text) if len(text) < _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}..."',
    ): _A_BYTE,
    (
        "arranger.api.parsing.list_items.brackets",
        "folded = text | 33",
    ): "outside of texts there is no letter that this makes a bracket",
    (
        "arranger.api.parsing.list_items.escaped",
        "last = np.where(before >= 0, others[before], None)",
    ): _NO_BACKSLASH,
    (
        "arranger.api.parsing.list_items.escaped",
        "last = np.where(before >= 0, others[before], +1)",
    ): _NO_BACKSLASH,
    (
        "arranger.api.parsing.list_items.escaped",
        "last = np.where(before >= 0, others[before], -2)",
    ): _NO_BACKSLASH,
    (
        "arranger.api.parsing.list_items.escaped",
        "odd: npt.NDArray[np.bool_] = (quotes + last) % 2 == 0",
    ): "a sum is even where the difference is",
    (
        "arranger.api.parsing.list_items.split_list",
        "first = int(np.searchsorted(marks, found.end() - 2))",
    ): "right before that bracket there is no other",
    (
        "arranger.api.parsing.list_items.split_list",
        "if first <= len(marks) and marks[first] == found.end() - 1 and depths[first] == 2:",
    ): "a bracket that is found is not within a text, and so one of the marks",
    (
        "arranger.api.parsing.list_items.split_list",
        "last = first + int(ends[0]) if len(ends) else len(marks) - 2",
    ): _CUT_SHORT,
    (
        "arranger.api.parsing.list_items.split_list",
        "items = [raw[a : b + 1] for a, b in zip(starts.tolist(), stops.tolist(), strict=None)]",
    ): _FALSE,
    (
        "arranger.api.parsing.list_items.split_list",
        "items = [raw[a : b + 1] for a, b in zip(starts.tolist(), stops.tolist(), )]",
    ): _FALSE,
    (
        "arranger.api.parsing.nesting.is_too_deep",
        'if raw.count(b"{") + raw.count(b"[") < _MAX_DEPTH:',
    ): _LONGER_WAY,
    (
        "arranger.api.parsing.objects.decode_without_nulls",
        'if sum(map(raw.count, (b"{", b"[", b","))) >= MAX_PARTS:',
    ): _A_BYTE,
    (
        "arranger.api.parsing.objects.decode_without_nulls",
        "raise ParseError(None)",
    ): _FIRST_ERROR,
    (
        "arranger.api.parsing.objects.decode_without_nulls",
        "raise ParseError(None) from None",
    ): _FIRST_ERROR,
    (
        "arranger.api.parsing.objects.decode_without_nulls",
        'raise ParseError("XXno field is nullXX")',
    ): _FIRST_ERROR,
    (
        "arranger.api.parsing.objects.decode_without_nulls",
        'raise ParseError("NO FIELD IS NULL")',
    ): _FIRST_ERROR,
    (
        "arranger.api.parsing.pieces.decode",
        "if get_origin(inner) is list or len(arguments) == 1:",
    ): "no type of ours has one argument and is no list",
    (
        "arranger.api.parsing.pieces.decode_list",
        "some, size = [], 1",
    ): _A_BYTE,
    (
        "arranger.api.parsing.pieces.decode_list",
        "decoded, some, size = list[Any](), list[msgspec.Raw](), 1",
    ): _A_BYTE,
    (
        "arranger.api.parsing.pieces.decode_list",
        "length = len(memoryview(part)) + 2",
    ): _A_BYTE,
    (
        "arranger.api.parsing.pieces.decode_list",
        "if size + length >= MAX_PIECE and some:",
    ): _A_BYTE,
    (
        "arranger.api.parsing.protobuf.read_length",
        "return int.from_bytes(header, )",
    ): _BY_DEFAULT,
    **{
        ("arranger.api.parsing.protobuf.message_class", line): why
        for line, why in {
            'file = FileDescriptorProto(name=None, syntax="proto2")': _NO_NAME,
            'file = FileDescriptorProto(syntax="proto2")': _NO_NAME,
            'file = FileDescriptorProto(name="XXmessage.protoXX", syntax="proto2")': _NO_NAME,
            'file = FileDescriptorProto(name="MESSAGE.PROTO", syntax="proto2")': _NO_NAME,
            'file = FileDescriptorProto(name="message.proto", syntax=None)': _BY_DEFAULT,
            'file = FileDescriptorProto(name="message.proto", )': _BY_DEFAULT,
        }.items()
    },
    (
        "arranger.api.parsing.protobuf_messages.Messages.of",
        "inlined.setdefault(where.message, []).append(self._field(None, field, where))",
    ): "texts of such fields are shared; none is said to differ from object to object",
    (
        "arranger.api.parsing.protobuf_messages.Messages.of",
        "MessageField(number, None, INLINED, Shared(Message(dict, inner)).__getitem__)",
    ): _INLINED,
    (
        "arranger.api.parsing.protobuf_messages.Messages.of",
        'MessageField(number, "XXXX", INLINED, Shared(Message(dict, inner)).__getitem__)',
    ): _INLINED,
    (
        "arranger.api.parsing.protobuf_messages.Messages._field",
        'default = ""',
    ): _FALSE,
    (
        "arranger.api.parsing.protobuf_messages.Messages._field",
        "case inspect.StrType() if isinstance(default, str) or default:",
    ): _LONGER_WAY,
    (
        "arranger.api.parsing.protobuf_messages.text",
        'return _UNDECODED.sub("\\ufffd", part.decode("UTF-8", "surrogateescape"))',
    ): "the encoding has both names",
    (
        "arranger.api.parsing.protobuf_messages.Messages._reader",
        "raise TypeError(None)",
    ): "it is told to who writes a Struct, with the line",
    (
        "arranger.api.parsing.protobuf_messages.Shared.__init__",
        "self._size = 1",
    ): _A_BYTE,
    (
        "arranger.api.parsing.protobuf_messages.Shared.__missing__",
        "if self._size >= MAX_SHARED:",
    ): _A_BYTE,
    (
        "arranger.api.parsing.timestamps.parse_zone",
        "if len(text) >= _MAX_LENGTH:",
    ): "no zone has a name of so many letters",
    (
        "arranger.api.parsing.timestamps.parse_zone",
        "raise ParseError(None)",
    ): _SAID_ANEW,
    (
        "arranger.api.parsing.timestamps.parse_zone",
        'raise ParseError("XXtoo longXX")',
    ): _SAID_ANEW,
    (
        "arranger.api.parsing.timestamps.parse_zone",
        'raise ParseError("TOO LONG")',
    ): _SAID_ANEW,
    (
        "arranger.api.quantity.read",
        'digits, power = (whole + fraction).lstrip("XX0XX"), power - len(fraction)',
    ): _NO_SUCH_TEXT,
    (
        "arranger.api.quantity.read",
        "if (more := len(digits) - _MAX_DIGITS) >= 0:",
    ): "a zero more behind the digits is none",
    (
        "arranger.api.quantity.read",
        "if (more := len(digits) - _MAX_DIGITS) > 1:",
    ): "one digit more is looked at",
    (
        "arranger.api.quantity.read",
        'left_out = digits[_MAX_DIGITS:].strip("XX0XX")',
    ): _NO_SUCH_TEXT,
    (
        "arranger.api.quantity.read",
        "if abs(magnitude := len(digits) + power) >= _MAX_POWER:",
    ): _BEYOND,
    (
        "arranger.api.quantity.read",
        'digits, power = "1", _MAX_POWER if magnitude >= 0 else -_MAX_POWER',
    ): _BEYOND,
    (
        "arranger.api.quantity.read",
        'digits, power = "1", _MAX_POWER if magnitude > 1 else -_MAX_POWER',
    ): _BEYOND,
    (
        "arranger.api.quantity.read_scaled",
        "return _cached_scaled(text, scale) if len(text) < _MAX_CACHED else _scaled(text, scale)",
    ): _REMEMBERED,
    (
        "arranger.api.quantity.read_scaled",
        "return _cached_scaled(text, scale) if (len(text) <= _MAX_CACHED) and False"
        " else _scaled(text, scale)",
    ): _REMEMBERED,
    (
        "arranger.api.quantity.scaled",
        "if abs(amount) >= LARGEST:",
    ): _LARGEST,
    (
        "arranger.api.quantity.scaled",
        "return LARGEST if amount >= 0 else -LARGEST",
    ): _LARGEST,
    (
        "arranger.api.quantity.scaled",
        "return LARGEST if amount > 1 else -LARGEST",
    ): _LARGEST,
    (
        "arranger.api.quantity.scaled",
        "if len(text) < _MAX_PLAIN and text.isascii() and text.isdigit():",
    ): _LONGER_WAY,
    (
        "arranger.api.quantity.parse_quantity",
        "if abs(amount) > LARGEST:",
    ): _LARGEST,
}
