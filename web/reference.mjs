// Writes docs/api/typescript.md from the sources of the package: every exported name with its comment and its
// signature, without bodies and private members. `node reference.mjs --check` only compares.
import { readFileSync, writeFileSync } from "node:fs";
import ts from "typescript";

const entry = new URL("sdk/src/index.ts", import.meta.url).pathname;
const target = new URL("../docs/api/typescript.md", import.meta.url);
const program = ts.createProgram([entry], { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, target: ts.ScriptTarget.ES2022 });
const checker = program.getTypeChecker();

const hidden = (member) =>
  (ts.canHaveModifiers(member) && ts.getModifiers(member)?.some((m) => m.kind === ts.SyntaxKind.PrivateKeyword)) ||
  (member.name && ts.isPrivateIdentifier(member.name));

// comment is what stands directly before a node.
function comment(node) {
  const text = node.getSourceFile().text;
  return (ts.getLeadingCommentRanges(text, node.getFullStart()) ?? []).map((r) => text.slice(r.pos, r.end) + "\n").join("");
}

// signature is a declaration without what makes it work.
function signature(node) {
  const text = node.getText();
  if (node.body) return text.slice(0, node.body.getStart() - node.getStart()).trimEnd() + ";";
  if (node.initializer && ts.isPropertyDeclaration(node)) return text.slice(0, node.initializer.getStart() - node.getStart()).replace(/\s*=\s*$/, "") + ";";
  return text;
}

function members(node) {
  const shown = node.members.filter((m) => !hidden(m) && !ts.isClassStaticBlockDeclaration(m));
  return shown.map((m) => (comment(m) + signature(m)).replace(/^\s*/gm, (s) => "  " + s.replace(/^[ \t]+/, ""))).join("\n");
}

function declaration(node) {
  if (!ts.isClassDeclaration(node)) return signature(node);
  const head = node.getText().slice(0, node.members.pos - node.getStart());
  return `${head}\n${members(node)}\n}`;
}

const module = checker.getSymbolAtLocation(program.getSourceFile(entry));
const names = checker.getExportsOfModule(module).sort((a, b) => (a.name < b.name ? -1 : 1));
let page = "# API of @sealcast/client\n\nMade from the sources by `make api`; [web/sdk/README.md](../../web/sdk/README.md) shows how things go together.\n";
for (const name of names) {
  const symbol = name.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(name) : name;
  const parts = symbol.declarations.map((d) => comment(d) + declaration(d).replace(/^export /, ""));
  page += `\n## ${name.name}\n\n\`\`\`ts\n${parts.join("\n")}\n\`\`\`\n`;
}

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== page) {
    console.error("docs/api/typescript.md does not fit the sources: run make api");
    process.exit(1);
  }
} else {
  writeFileSync(target, page);
}
