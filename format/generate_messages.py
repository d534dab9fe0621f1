#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C++ classes of a .proto file's messages, with the accessors that protobuf's own have, and the tables by
which format/wire.h reads and writes them. Knows what program.proto uses of proto3, and refuses the rest."""

import argparse
import dataclasses
import pathlib
import re
import sys

SCALARS = {  # protobuf's type: C++'s
    "bool": "bool",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float": "float",
    "double": "double",
    "string": "std::string",
}
KINDS = {
    "bool": "Bool",
    "int32": "Int32",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float": "Float",
    "double": "Double",
    "string": "String",
}
REPEATED = {"int32", "float", "string"}  # of which the reader and the writer know several


class UnsupportedError(Exception):
    pass


@dataclasses.dataclass
class Enum:
    name: str
    values: list  # (name, number)


@dataclasses.dataclass
class Field:
    name: str
    number: int
    type: str
    label: str  # "", "optional", "repeated"
    oneof: int  # 0: none


@dataclasses.dataclass
class Message:
    name: str
    enums: list
    fields: list

    def siblings(self, field):
        return [other for other in self.fields if field.oneof and other.oneof == field.oneof and other is not field]


class Parser:
    def __init__(self, text):
        text = re.sub(r"//[^\n]*", "", text)
        self.tokens = re.findall(r'"[^"]*"|[\w.]+|[^\s\w]', text)
        self.at = 0
        self.enums, self.messages = [], []

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, pattern):
        token = self.next()
        if not re.fullmatch(pattern, token):
            raise UnsupportedError(f"'{token}' stands where {pattern} should")
        return token

    def skip_statement(self):
        while self.next() != ";":
            pass

    def parse(self):
        while self.at < len(self.tokens):
            match self.next():
                case "syntax" | "package" | "option":
                    self.skip_statement()
                case "enum":
                    self.enums.append(self.parse_enum())
                case "message":
                    self.messages.append(self.parse_message())
                case other:
                    raise UnsupportedError(f"'{other}' is not known here")
        return self

    def parse_enum(self):
        enum = Enum(self.take(r"\w+"), [])
        self.take("{")
        while (name := self.take(r"\w+|}")) != "}":
            self.take("=")
            enum.values.append((name, int(self.take(r"\d+"))))
            self.take(";")
        return enum

    def parse_message(self):
        message = Message(self.take(r"\w+"), [], [])
        self.take("{")
        oneof = oneofs = 0
        while True:
            match token := self.next():
                case "enum":
                    message.enums.append(self.parse_enum())
                case "oneof":
                    oneof = oneofs = oneofs + 1
                    self.take(r"\w+")
                    self.take("{")
                case "}" if oneof:
                    oneof = 0
                case "}":
                    message.fields.sort(key=lambda field: field.number)
                    return message
                case "reserved":
                    self.skip_statement()
                case _:
                    label = token if token in ("optional", "repeated") else ""
                    kind = self.take(r"\w+") if label else token
                    name = self.take(r"\w+")
                    self.take("=")
                    message.fields.append(Field(name, int(self.take(r"\d+")), kind, label, oneof))
                    self.take(";")


class Writer:
    def __init__(self, schema):
        self.messages = schema.messages
        self.names = {message.name for message in schema.messages}
        self.enums = schema.enums

    def is_enum(self, message, kind):
        return kind in {enum.name for enum in self.enums + message.enums}

    def is_explicit(self, field):
        return field.type not in self.names and (field.label == "optional" or bool(field.oneof))

    def value_type(self, message, field):
        if self.is_enum(message, field.type):
            return "int32_t"
        if field.type in self.names:
            return field.type
        if field.type not in SCALARS:
            raise UnsupportedError(f"{message.name}.{field.name}: type {field.type} is not known here")
        return SCALARS[field.type]

    def member_type(self, message, field):
        value = self.value_type(message, field)
        if field.type in self.names:
            return f"{'Repeated' if field.label == 'repeated' else 'Child'}<{value}>"
        if field.label == "repeated":
            if field.type not in REPEATED:
                raise UnsupportedError(f"{message.name}.{field.name}: repeated {field.type} is not known here")
            return f"std::vector<{value}>"
        if self.is_explicit(field):
            if value not in ("uint32_t", "uint64_t"):
                raise UnsupportedError(f"{message.name}.{field.name}: {field.type} with presence is not known here")
            return f"Optional<{value}>"
        return value

    def accessors(self, message, field):
        name, place, value = field.name, f"{field.name}_", self.value_type(message, field)
        index = "static_cast<size_t>(index)"
        if field.label == "repeated":
            yield f"int {name}_size() const {{ return static_cast<int>({place}.size()); }}"
            yield f"const {self.member_type(message, field)} &{name}() const {{ return {place}; }}"
            yield f"{self.member_type(message, field)} *mutable_{name}() {{ return &{place}; }}"
            if field.type in self.names:
                yield f"const {value} &{name}(int index) const {{ return {place}[index]; }}"
                yield f"{value} *mutable_{name}(int index) {{ return {place}.Mutable(index); }}"
                yield f"{value} *add_{name}() {{ return {place}.Add(); }}"
                yield f"void clear_{name}() {{ {place}.Clear(); }}"
                return
            given = "const std::string &" if field.type == "string" else f"{value} "
            yield f"{given}{name}(int index) const {{ return {place}[{index}]; }}"
            yield f"void set_{name}(int index, {given}value) {{ {place}[{index}] = value; }}"
            yield f"void add_{name}({given}value) {{ {place}.push_back(value); }}"
            yield f"void clear_{name}() {{ {place}.clear(); }}"
            return
        others = "".join(f"clear_{other.name}(); " for other in message.siblings(field))
        if field.type in self.names:
            yield f"bool has_{name}() const {{ return {place}.isSet(); }}"
            yield f"const {value} &{name}() const {{ return {place}.get(); }}"
            yield f"{value} *mutable_{name}() {{ {others}return {place}.make(); }}"
            yield f"void clear_{name}() {{ {place}.clear(); }}"
        elif self.is_explicit(field):
            yield f"bool has_{name}() const {{ return {place}.isSet; }}"
            yield f"{value} {name}() const {{ return {place}.value; }}"
            yield f"void set_{name}({value} value) {{ {others}{place}.set(value); }}"
            yield f"void clear_{name}() {{ {place}.clear(); }}"
        elif field.type == "string":
            yield f"const std::string &{name}() const {{ return {place}; }}"
            yield f"void set_{name}(std::string value) {{ {place} = std::move(value); }}"
            yield f"std::string *mutable_{name}() {{ return &{place}; }}"
            yield f"void clear_{name}() {{ {place}.clear(); }}"
        else:
            outer = field.type if self.is_enum(message, field.type) else value
            read = f"static_cast<{outer}>({place})" if outer != value else place
            yield f"{outer} {name}() const {{ return {read}; }}"
            yield f"void set_{name}({outer} value) {{ {place} = value; }}"
            yield f"void clear_{name}() {{ {place} = 0; }}"

    def write_enum(self, enum, indent, static):
        values = ", ".join(f"{name} = {number}" for name, number in enum.values)
        yield f"{indent}enum {enum.name} : int32_t {{ {values} }};"
        yield f"{indent}{static} const char *{enum.name}_Name({enum.name} value) {{"
        yield f"{indent}  switch (value) {{"
        for name, _ in enum.values:
            yield f'{indent}  case {name}:\n{indent}    return "{name}";'
        yield f'{indent}  }}\n{indent}  return "";\n{indent}}}'

    def write_class(self, message):
        yield f"class {message.name} {{\npublic:"
        for enum in message.enums:
            yield from self.write_enum(enum, "  ", "static")
        for field in message.fields:
            for accessor in self.accessors(message, field):
                yield f"  {accessor}"
        yield f"\n  void Clear() {{ *this = {message.name}(); }}"
        yield "  std::string SerializeAsString() const { return write(type, this); }"
        yield "\n  static const MessageType type;\n\nprivate:\n  static const Field fields[];"
        for field in message.fields:
            kind = self.member_type(message, field)
            initial = " = 0" if kind in SCALARS.values() and kind != "std::string" else ""
            yield f"  {kind} {field.name}_{initial};"
        yield "};\n"

    def write_table(self, message):
        name = message.name
        yield f"template struct Object<{name}>;"
        yield f"const Field {name}::fields[] = {{"
        for field in message.fields:
            is_message = field.type in self.names
            kind = "Message" if is_message else KINDS.get(field.type, "Int32")
            presence = "Explicit" if self.is_explicit(field) else "Implicit"
            yield (
                f"    {{{field.number}, offsetof({name}, {field.name}_), FieldKind::{kind}, FieldPresence::{presence}, "
                f"{'true' if field.label == 'repeated' else 'false'}, {field.oneof}, "
                f"{f'&{field.type}::type' if is_message else 'nullptr'}}},"
            )
        yield "};"
        yield (
            f"const MessageType {name}::type = {{Object<{name}>::make, Object<{name}>::destroy, fields, "
            f"{len(message.fields)}, sizeof({name})}};"
        )
        yield f'static_assert(std::is_standard_layout_v<{name}>, "offsetof needs it");\n'

    def in_order(self):
        """Those that others hold before these, where no circle keeps them from it."""
        ordered, open_ones = [], set()

        def visit(message):
            if message.name in open_ones:
                return
            open_ones.add(message.name)
            for field in message.fields:
                if field.type in self.names:
                    visit(next(other for other in self.messages if other.name == field.type))
            ordered.append(message)

        for message in self.messages:
            visit(message)
        return ordered

    def header(self):
        yield "#pragma once\n"
        yield '#include "format/message.h"\n#include "format/wire.h"\n'
        yield "namespace mebp::format {\n"
        for message in self.messages:
            yield f"class {message.name};"
        for message in self.messages:
            yield f"extern template struct Object<{message.name}>;"
        yield ""
        for enum in self.enums:
            yield from self.write_enum(enum, "", "inline")
        for message in self.in_order():
            yield from self.write_class(message)
        yield "} // namespace mebp::format"

    def source(self, header):
        yield f'#include "format/{header}"\n\n#include <cstddef>\n#include <type_traits>\n'
        yield '#include "format/message-inl.h"\n'
        yield "namespace mebp::format {\n"
        for message in self.in_order():
            yield from self.write_table(message)
        yield "} // namespace mebp::format"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proto", type=pathlib.Path)
    parser.add_argument("header", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        writer = Writer(Parser(arguments.proto.read_text()).parse())
        header, source = writer.header(), writer.source(arguments.header.name)
        first = f"// Generated from {arguments.proto.name}."
        arguments.header.write_text("\n".join([first, *header, ""]))
        arguments.source.write_text("\n".join([first, *source, ""]))
    except UnsupportedError as error:
        print(f"{arguments.proto}: {error}; extend {pathlib.Path(__file__).name}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
