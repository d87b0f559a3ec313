"""docs/protocol.md and docs/security.md against what they are about: messages, codes, examples, named tests."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

from sealcast import messages
from test_vectors import VECTORS, by_hand, load

ROOT = Path(__file__).resolve().parents[2]
TESTS = Path(__file__).resolve().parent


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def rows(text: str, columns: int) -> list[list[str]]:
    """The cells of the Markdown table rows with that many columns."""
    lines = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    cells = [[c.strip() for c in line.split("|")] for line in lines]
    return [row for row in cells if len(row) == columns]


class TestProtocolPage(unittest.TestCase):
    def setUp(self) -> None:
        self.page = read("docs/protocol.md")

    def tables(self) -> dict[str, dict[int, tuple[str, str]]]:
        """The messages in the tables of section 6.1, in the form of messages.MESSAGES."""
        section = self.page.split("### 6.1")[1].split("### 6.2")[0]
        out: dict[str, dict[int, tuple[str, str]]] = {}
        for part in re.split(r"^\*\*(?=[A-Z])", section, flags=re.MULTILINE)[1:]:
            name = re.match(r"\w+", part).group()
            if name.endswith("Frame"):
                cells = [(number, *re.match(r"`(\w+)` (\w+)", text).groups()) for number, text, _ in rows(part, 3)[2:]]
                out[name] = {int(number): (field, kind) for number, kind, field in cells}
            elif name == "Ping":
                for message, number, kind, field, _ in rows(part, 5)[2:]:
                    out[message] = {int(number): (field, kind)}
            elif name not in ("Cause", "Kind"):
                out[name] = {int(n): (field, kind.replace(" ", "")) for n, kind, field, _ in rows(part, 4)[2:]}
        return out

    def test_tables_are_the_proto_file(self) -> None:
        proto = re.sub(r"//.*", "", read("wire/sealcast.proto"))
        want = {}
        for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", proto, re.MULTILINE | re.DOTALL):
            fields = re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body)
            want[name] = {int(number): (field, kind + ("[]" if repeated else "")) for repeated, kind, field, number in fields}
        self.assertEqual(self.tables(), want)
        for prefix, known in ("CAUSE", messages.CAUSES), ("KIND", messages.NOTICES):
            values = re.findall(rf"({prefix}_\w+) = (\d+);", proto)
            for name, value in values:
                self.assertIn(f"| {value} | {name} |", self.page)
            self.assertEqual({n: f"{prefix}_{name.upper()}" for n, name in known.items()}, {int(v): n for n, v in values})

    def test_client_has_the_tables(self) -> None:
        self.assertEqual(messages.MESSAGES, self.tables())

    def test_kinds(self) -> None:
        kinds = re.findall(r"^\s*Kind(\w+)\s+Kind = (0x\w\w)", read("wire/envelope.go"), re.MULTILINE)
        self.assertGreater(len(kinds), 4)
        section = self.page.split("## 2. Envelope")[1].split("\n## ")[0]
        self.assertEqual({(row[1], row[0]) for row in rows(section, 4) if row[0].startswith("0x")}, set(kinds))

    def test_close_codes(self) -> None:
        code = read("wire/close.go")
        numbers = dict(re.findall(r"^\s*(Close\w+)\s+CloseCode = (\d+)", code, re.MULTILINE))
        section = self.page.split("### 7.4")[1].split("### 7.5")[0]
        table = {row[0]: row[3] for row in rows(section, 5) if row[0].isdigit()}
        self.assertEqual(set(table), set(numbers.values()))
        stay_away = re.search(r"case ((?:Close\w+,?\s*)+):\s*return false", code).group(1)
        self.assertEqual({n for n, again in table.items() if again.startswith("no")},
                         {numbers[name] for name in re.findall(r"Close\w+", stay_away)})

    def test_examples_come_from_the_vectors(self) -> None:
        trace = by_hand(load(VECTORS / "session-aes-128-gcm-classical.json"))
        known = " ".join(v.hex() for v in trace.values()) + "".join(p.read_text() for p in VECTORS.glob("*.json"))
        nonces = [(int("d659c26814e0a706a1f2a9c8", 16) ^ n).to_bytes(12, "big").hex() for n in range(3)]
        known += " ".join(nonces)
        code = "".join(re.findall(r"^```\n(.*?)^```", self.page, re.MULTILINE | re.DOTALL))
        examples = re.findall(r"(?<![\w])[0-9a-f]{12,}(?![\w…])", code)
        self.assertGreater(len(examples), 50)
        for example in examples:
            self.assertIn(example, known)

    def test_prologue_example(self) -> None:
        example = re.search(r"^```\n(7365616c.*?)^```", self.page, re.MULTILINE | re.DOTALL).group(1)
        vector = load(VECTORS / "session-aes-128-gcm-classical.json")
        self.assertEqual(re.sub(r"\s", "", example), vector["prologue"])

    def test_references_to_sections(self) -> None:
        headings = re.findall(r"^#+ (\d\.\d+) ", self.page, re.MULTILINE)
        references = re.findall(r"\((\d\.\d)\)", self.page)
        self.assertGreater(len(references), 20)
        self.assertEqual(set(references) - set(headings), set())


class TestSecurityPage(unittest.TestCase):
    def test_named_tests_exist(self) -> None:
        """The checklist names tests as `package: TestName`; the package is a folder."""
        page = read("docs/security.md")
        named = re.findall(r"`([\w/]+): ((?:(?:Test|Fuzz|test_)\w+(?:, )?)+)`", page)
        self.assertGreater(len(named), 20)
        for folder, names in named:
            pattern = "test_*.py" if folder == "examples/python" else "*_test.go"
            code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / folder).glob(pattern))
            for name in names.split(", "):
                self.assertRegex(code, rf"(?m)^\s*(func|class|def|async def) {name}\b", f"{folder}: {name}")


if __name__ == "__main__":
    unittest.main()
