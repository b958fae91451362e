#!/usr/bin/env python3
"""The guards of the house: cheap rules about where things may stand, checked on every `make test`.

usage: scripts/check_house.py [ROOT]       one finding a line, `file:line: what; how to mend`; exit 1 if any
       scripts/check_house.py --self-test  breaks each rule once in a scratch tree, looks for the finding
"""
import os
import re
import subprocess
import sys
from pathlib import Path

CPP = {".cpp", ".hpp", ".h", ".cu", ".cuh"}
CODE = CPP | {".py"}
SHIPPED = ("src", "include", "tools", "python")  # folders whose files ship; the rest may bend some rules
MAX_LINES, MAX_LINES_DEVICE, MAX_LINES_PUBLIC, MAX_COLUMNS = 400, 600, 250, 109
NAMES_OF_NO_FILE = {"llama.cpp", "kernel_table.hpp"}  # another project; what the build generates
SYSTEM_FOLDERS = set("bin boot dev etc lib lib32 lib64 media mnt opt proc run sbin srv sys tmp usr var".split())
PERSONAL_FOLDERS = {"home", "root", "Users"}
SKIP_FOLDERS = re.compile(r"(^|/)(\.git|build[^/]*|demo|\.venv|__pycache__)(/|$)")

# The rooms below src, from the bottom up, each with those it may include and call: above it in this table, and so
# without circles. src/CMakeLists.txt makes libraries of them; scripts/check_links.py looks at their object files.
ROOMS = {
    "core": "",
    "formats": "core",
    "layouts": "core formats",
    "seam": "core formats layouts",
    "reference": "core formats layouts seam",
    "cpu": "core formats layouts seam reference",
    "ops": "core formats layouts seam reference",  # cpu through the kernel tables of seam, cuda through its GpuOperations
    "cuda": "core formats layouts seam",
    "report": "core formats",
    "checkpoint": "core formats layouts seam reference ops report",
    "emulator": "core formats cpu cuda",
    "sass": "core formats cuda",
    "profile": "core emulator report",
}

# Sources, or folders of them, that no test mirrors, each with the reason.
WITHOUT_TEST = {
    "tools/microscale/main.cpp": "calls program.cpp",
    "tools/microscale/program.cpp": "the tests in tests/tools run the program itself",
    "tools/microscale/options.cpp": "the tests in tests/tools run the program itself",
    "tools/microscale/launch_words.cpp": "tests/tools/ptx_launch_test.cpp gives the program every option",
    "tools/gpu_check/": "checks themselves; scripts/gpu_check runs them, and tests/emulator/shipped_kernels_test.cpp most",
    "src/checkpoint/matrix_slice.hpp": "tests/checkpoint/tile_test.cpp and fused_experts_test.cpp cut with it",
    "tools/microscale/choice_output.cpp": "tests/tools/cmd_quantize_test.cpp reads what it prints",
    "src/checkpoint/checked_tile.cpp": "tests/checkpoint/convert_wrong_input_test.cpp reads every kind of bad element by it",
    "tools/microscale/plan_output.cpp": "tests/tools/cmd_quantize_test.cpp and cmd_convert_test.cpp read what it prints",
    "src/checkpoint/unit_runner.cpp": "tests/checkpoint/convert_test.cpp runs it, whole conversions",
    "tools/microscale/command_progress.hpp": "tests/tools/cmd_quantize_test.cpp reads what it shows",
    "src/emulator/ptx/ast.hpp": "tests/emulator/ptx reads what it holds",
    "src/seam/attention_call.cpp": "tests/ops/attention_operands_test.cpp has sequences of every kind",
    "src/seam/kv_cache_view.cpp": "tests/ops/attention_cache_test.cpp reads caches of every layout through it",
    "src/seam/matmul_call.hpp": "tests/ops/matmul_test.cpp and tests/cuda/matmul/matmul_test.cpp make them",
    "src/seam/matmul_kernels.hpp": "tests/ops/matmul_test.cpp cuts its rows in every call",
    "src/cpu/": "tests/cpu runs every kernel of every table against the reference",
    "src/emulator/ops/generic/": "tests/emulator/ops runs the .cpp files made of them; handler_test.cpp both sets",
    "src/emulator/ops/target.hpp": "tests/emulator/ops/handler_test.cpp compares the sets of handlers it makes",
    "src/report/utf8.hpp": "tests/report/terminal_test.cpp and svg_test.cpp run it on broken and wide text",
    "src/formats/minifloat.hpp": "tests/formats/elements_test.cpp runs every type made from the template",
}


class Tree:
    """The files of a checkout: those git knows or would add; all of them where there is no git."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        listing = []
        if (self.root / ".git").exists():
            git = subprocess.run(
                ["git", "-C", str(self.root), "ls-files", "-co", "--exclude-standard", "-z"],
                capture_output=True, text=True)
            listing = git.stdout.split("\0") if git.returncode == 0 else []
        if not listing:
            listing = [p.relative_to(self.root).as_posix() for p in self.root.rglob("*")]
        self.files = sorted({f for f in listing
                             if f and not SKIP_FOLDERS.search(f) and (self.root / f).is_file()})
        self.known = set(self.files)
        self.folders = {str(parent) for f in self.files for parent in Path(f).parents}

    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def lines(self, name):
        return list(enumerate(self.text(name).splitlines(), 1))

    def code(self, *folders, suffixes=CPP):
        for name in self.files:
            if Path(name).suffix in suffixes and (not folders or name.split("/")[0] in folders):
                yield name


def has_code(text):
    """Whether a header holds function bodies, not just declarations and constants."""
    return re.search(r"^\s*(return\b|for \(|while \(|switch \()", text, re.M) is not None


def test_names(source):
    """Where a test of `source` may stand, the plainest first. src/cpu/avx2/pack.cpp: also as
    tests/cpu/avx2_pack_test.cpp; report/html_parts.cpp, a part of html: also in html_test.cpp."""
    path = Path(source)
    below = ["tools"] if path.parts[0] == "tools" else list(path.parent.parts[1:])
    words = path.stem.split("_")
    names = []
    for stem in ("_".join(words[:count]) for count in range(len(words), 0, -1)):
        names.append(f"tests/{'/'.join(below)}/{stem}_test.cpp")
        if len(below) > 1:
            names.append(f"tests/{below[0]}/{stem}_test.cpp")
            names.append(f"tests/{below[0]}/{'_'.join(below[1:])}_{stem}_test.cpp")
    if below[:1] == ["cuda"]:  # the parts of a family, or of a path of one, are tested through its launch
        names.append(f"tests/{'/'.join(below)}/launch_test.cpp")
        names += [f"tests/{'/'.join(below[:depth])}/{below[depth - 1]}_test.cpp" for depth in range(2, len(below) + 1)]
    return names


def tests_mirror_sources(tree):
    for name in tree.code("src", "tools"):
        candidates = test_names(name)
        excused = any(name == entry or (entry.endswith("/") and name.startswith(entry)) for entry in WITHOUT_TEST)
        if excused or any(c in tree.known for c in candidates):
            continue
        if name.endswith((".hpp", ".h")):
            twin = str(Path(name).with_suffix(".cpp"))
            if twin in tree.known or not has_code(tree.text(name)):
                continue
        elif not name.endswith(".cpp"):
            continue
        yield name, 1, f"no test mirrors it; write {candidates[0]}, or say why not in scripts/check_house.py"
    for name in WITHOUT_TEST:
        if (tree.root / "CMakeLists.txt").exists() and not (tree.root / name).exists():
            yield "scripts/check_house.py", 1, f"WITHOUT_TEST names {name}, which is gone; remove the entry"


def forbidden_places(tree):
    asm = re.compile(r"\b(asm|__asm__|__asm)\s*(volatile|__volatile__|goto)?\s*\(")
    intrinsics = re.compile(r"#\s*include\s*<(\w*intrin)\.h>")
    for name in tree.code(*SHIPPED):
        for number, line in tree.lines(name):
            if asm.search(line.split("//")[0]) and not name.startswith("src/cuda/ptx/"):
                yield name, number, "inline assembly; it belongs into a function of src/cuda/ptx"
            if intrinsics.search(line) and not name.startswith(("src/cpu/", "src/emulator/")):
                yield name, number, "CPU intrinsics; they belong below src/cpu or src/emulator"


def rooms_below(tree):
    """Rooms include and are included as the table says."""
    for number, (room, below) in enumerate(ROOMS.items()):
        for other in below.split():
            if other not in list(ROOMS)[:number]:
                yield "scripts/check_house.py", 1, f"ROOMS: {room} may use {other}, which does not stand above it"
    include = re.compile(r'#\s*include\s*"([a-z_]+)/')
    for name in tree.code("src"):
        if name.count("/") < 2:
            continue
        room = name.split("/")[1]
        if room not in ROOMS:
            yield name, 1, f"src/{room} is no room of the table in scripts/check_house.py; add it with those below it"
            continue
        for number, line in tree.lines(name):
            found = include.match(line.strip())
            if found and found.group(1) not in ("microscale", room, *ROOMS[room].split()):
                yield name, number, (f"includes {found.group(1)}/, which {room} must not know; what both need belongs "
                                     "into a room below both (the table in scripts/check_house.py)")


def third_party_headers(tree):
    include = re.compile(r'#\s*include\s*(<([^>]+)>|"([^"]+)")')
    for name in tree.code():
        public = name.startswith("include/")
        if not public and not name.endswith((".cu", ".cuh")):
            continue
        for number, line in tree.lines(name):
            found = include.match(line.strip())
            if not found:
                continue
            system, own = found.group(2), found.group(3)
            standard = system and re.fullmatch(r"[a-z0-9_]+", system)
            cuda = not public and system and re.fullmatch(r"cuda\w*\.h", system)
            ours = own and (own.startswith("microscale/") or not public)
            if not (standard or cuda or ours):
                yield name, number, (f"includes {system or own}; " + (
                    "a public header includes the standard library and microscale/ only" if public
                    else "device code includes the standard library, CUDA and this project only"))


def types_of_one_name(tree):
    """Two types of one name in one namespace are one to the linker: vectors of both share their code."""
    opens = re.compile(r"namespace ([\w:]+) \{$")
    defines = re.compile(r"(?:struct|class|enum class|enum) (?:alignas\(\w+\) )?(\w+)\b(?!::)[^;]*\{")
    first = {}
    for name in tree.code("src", "include", "tools"):
        namespace = ""
        for number, line in tree.lines(name) if name.endswith(".hpp") else ():
            namespace = found.group(1) if (found := opens.match(line)) else namespace
            if namespace and (found := defines.match(line)):  # of no indentation
                key = namespace, found.group(1)
                if first.setdefault(key, name) != name:
                    yield name, number, f"defines {'::'.join(key)}, as {first[key]} does; rename one of them"


def light_package(tree):
    """`import microscale` loads nothing but itself: frameworks, and numpy, are imported by the function that needs
    them. Files and folders named after a framework are that framework's, and the emulator's, which only users import,
    takes numpy arrays."""
    heavy = "numpy|torch|jax|jaxlib|cupy|ml_dtypes|transformers|vllm|sglang"
    imported = re.compile(rf"(import|from) ({heavy})\b")
    own = re.compile(rf"python/src/microscale/({heavy}|emulator)(\.py$|/)")
    for name in tree.code("python", suffixes={".py"}):
        if name.startswith("python/src/") and not own.match(name):
            for number, line in tree.lines(name):
                found = imported.match(line)  # of no indentation
                if found:
                    yield name, number, f"imports {found.group(2)} when it is loaded; import it where it is used"


def sizes_and_characters(tree):
    for name in tree.code(suffixes=CODE):
        lines = tree.lines(name)
        limit = (MAX_LINES_PUBLIC if name.startswith("include/")
                 else MAX_LINES_DEVICE if name.endswith((".cu", ".cuh")) else MAX_LINES)
        if len(lines) > limit:
            yield name, limit + 1, f"{len(lines)} lines, more than {limit}; split it by what it does"
        for number, line in lines:
            if len(line) > MAX_COLUMNS and (Path(name).suffix in CPP or name.startswith(SHIPPED)):
                yield name, number, f"{len(line)} columns, more than {MAX_COLUMNS}; break the line"
            if Path(name).suffix in CPP and not line.isascii():
                odd = next(c for c in line if not c.isascii())
                yield name, number, f"non-ASCII character U+{ord(odd):04X}; write it in ASCII or escape it"


def of_one_machine(top):
    """Whether paths below /top are this machine's or one person's: it exists, and no system brings it."""
    return top in PERSONAL_FOLDERS or (top not in SYSTEM_FOLDERS and os.path.isdir("/" + top))


def leftovers(tree):
    absolute = re.compile(r"(?:^|[^A-Za-z0-9_.$}/])/([A-Za-z_][\w.-]*)/[\w.-]")
    later = re.compile(r"\b(TODO|FIXME|XXX|HACK|not implemented)\b")
    for name in tree.files:
        if name.startswith("scripts/check_house") or (tree.root / name).stat().st_size > 1_000_000:
            continue
        if b"\0" in (tree.root / name).read_bytes()[:4096]:
            continue
        for number, line in tree.lines(name):
            if any(of_one_machine(top) for top in absolute.findall(line)):
                yield name, number, "a path of one machine; make it relative, or an option"
            if Path(name).suffix in CODE and later.search(line):
                yield name, number, "work left for later; finish it, or state the limit in words"
            if line.startswith(("<" * 7 + " ", ">" * 7 + " ")):
                yield name, number, "a mark of a merge; keep what is right of both sides"


def documented_paths(tree):
    """Documents may only name paths that exist: in `code`, from the root; as links, from the document."""
    tops = {f.split("/")[0] for f in tree.files}
    for name in (f for f in tree.files if f.endswith(".md")):
        for number, line in tree.lines(name):
            spoken = [w for span in re.findall(r"`([^`]+)`", line) for w in span.split()]
            spoken = [re.sub(r":\d+$", "", w).rstrip("/.,;:") for w in spoken]
            spoken = [w for w in spoken if "/" in w and w.split("/")[0] in tops]  # not a command or an option
            linked = [link for link in re.findall(r"\]\(([^)#\s]+)", line) if not re.match(r"[a-z]+:", link)]
            linked = [os.path.normpath(os.path.join(os.path.dirname(name), link)) for link in linked]
            for path in spoken + linked:
                if not re.search(r"[<>$]|\.\.\.", path) and not exists(tree, path):  # not a placeholder
                    yield name, number, f"names {path}, which does not exist; mend or remove it"


def named_files(tree):
    """Comments below src and `code` in documents may only name files that exist, with or without their folder."""
    known = {Path(f).name for f in tree.files} | NAMES_OF_NO_FILE
    for name in tree.files:
        if name.endswith(".md"):
            spoken = lambda line: re.findall(r"`([^`]+)`", line)
        elif name.startswith("src/") and Path(name).suffix in CPP:
            spoken = lambda line: line.split("//")[1:]
        else:
            continue
        for number, line in tree.lines(name):
            for file in re.findall(r"(?<![\w/.<{},*])([\w/]*\w\.(?:cuh|hpp|cpp))\b", " ".join(spoken(line))):
                if Path(file).name not in known and not (name.endswith(".md") and "/" in file):  # documented_paths
                    yield name, number, f"names {file}, which does not exist; mend or remove it"


def exists(tree, path):
    braces = re.search(r"\{([^}]+)\}", path)
    if braces:
        return all(exists(tree, path.replace(braces.group(0), choice, 1))
                   for choice in braces.group(1).split(","))
    if "*" in path:
        return any(True for _ in tree.root.glob(path))
    return path in tree.known or path in tree.folders


RULES = (named_files, tests_mirror_sources, forbidden_places, rooms_below, third_party_headers, types_of_one_name,
         light_package, sizes_and_characters, leftovers, documented_paths)


def findings(root):
    tree = Tree(root)
    found = [f"{name}:{number}: {what}" for rule in RULES for name, number, what in rule(tree)]
    return found, len(tree.files)


def main():
    if sys.argv[1:] == ["--self-test"]:
        from check_house_self_test import self_test
        return self_test(findings)
    found, files = findings(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    for line in found:
        print(line)
    print(f"check_house: {len(found)} findings in {files} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
