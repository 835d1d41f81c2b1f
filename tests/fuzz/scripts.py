"""Random shell scripts on whose end bash and we must agree: what they use is set before it, but for ``U``."""

from __future__ import annotations

from random import Random

BEGIN = (
    "A=1; B='x y'; C=gpt-7b_v1.0; D=; V=(1 '2 3' x); W=(); "
    "declare -A M=([k]=v [l]='a b'); I=0; export C; set -- one 'two 2'"
)
TEXTS = ("A", "B", "C", "D")
NUMBERS = ("0", "1", "2", "3", "8", "12", "010", "0x1f", "A", "$A", "${A}", "I", "V[0]", "${#V[@]}", "${#B}")
OPERATIONS = ("({} + {})", "{} * ({})", "{} - {}", "({})/(({})*2+1)", "{} < {} ? 5 : 6", "({}) % 7 - {}", "-({}) + {}",
              "!({}) || {}", "{}<<2 | {}", "{} == {} && 1 > 0", "({}, {})", "~({}) ^ {}")  # fmt: skip
LITERALS = ("a", "b-c", "--tp", "--lr=1e-4", "x_1", "a,b", "1", "07", "a.b.c", "p/q/r.sh", "k{1..3}", "a{b,c}", "k{x}",
            "=", "+", "'l $A'", "\\ ", "\\$A", "$'m\\tn'", "''", "k{3..1}{a,b}", "x{${A},b}", "#", "!")  # fmt: skip
PLAIN = tuple(each for each in LITERALS if "{" not in each)
PATTERNS = ("*", "?", "a*", "*.*", "[a-c]*", "g*-", "*-*", "x", "1", "?*", "[!g]*", "gpt-[0-9]*")
PARAMETERS = (
    "${{{n}}}", "${{{n}:-{w}}}", "${{U:-{w}}}", "${{U-{w}}}", "${{{n}:+{w}}}", "${{{n}+{w}}}", "${{#{n}}}",
    "${{{n}#{p}}}", "${{{n}##{p}}}", "${{{n}%{p}}}", "${{{n}%%{p}}}", "${{{n}/{p}/z}}", "${{{n}//-/+}}",
    "${{{n}//[0-9]/}}", "${{{n}/#g/h}}", "${{{n}/%0/1}}", "${{{n}^^}}", "${{{n},,}}", "${{{n}^}}", "${{{n}: {i}}}",
    "${{{n}:{j}:2}}", "${{V[0]}}", "${{V[1]-}}", "${{V[-1]}}", "${{V[@]}}", "${{W[@]}}", "${{V[*]}}", "${{#V[@]}}",
    "${{V[@]:1}}", "${{V[@]:0:2}}", "${{V[@]/x/y}}", "${{M[k]}}", "${{M[l]}}", "$#", "$@", "$1", "$(({e}))",
    "$(echo {w})", "${{V[I]}}", "${{V[$((A))]:-}}", "${{V[@]+on}}", "${{W[@]-off}}", "${{C%-*}}",
)  # fmt: skip
CONDITIONS = (
    '[ "${n}" = "x y" ]', '[ "${n}" = 1 ]', "[[ ${n} == {p} ]]", '[ -z "${n}" ]', "[[ -n ${n} && ${m} != x ]]",
    "(( {e} > {f} ))", "[ $(({e})) -le $(({f})) ]", "[[ ! -z ${n} || $A == 1 ]]", "true", "false", "! true",
    "[ ${{#V[@]}} -gt 2 ]", '[ -n "${{V[0]:-}}" ]', "test 1 -eq 2", "[ 010 -eq 10 ]", "[[ 010 -eq 8 ]]",
)  # fmt: skip
SIMPLE = (
    "show {w} {x}", "show {w}", "show {w}{x}", "{n}={w}", "{n}+={w}", "V=({w} {x})", "V+=({w})",
    "V={w}", "V+={w}", "V[0]={w}", "V[1]={w}",
    "(( A = {e} )); D=", "let 'I={e}'", "let I+=2", "((I++)); ((++I)); ((A--))", "((I += {e}))", "M[k]={w}", "M[n]={w}",
    "D=$(true)", "D=$(echo {w} {x})", "D=$(printf '%s-%d' a 7)", "export D={n} I", "set -- {w} {x}",
    'read A D <<< "1 2 3"', 'read -a V <<< "$C 4"', "IFS=- read A D <<< $C", "bash -c 'show \"$C\" $1' _ {w}",
    "f {w}", "f {w} {x}", "A=5 bash -c 'show $A$B'", "A=6 f {w}", "printf -v D '%s' {w}", "unset 'V[0]'",
    "eval 'D=$A'; eval show {w}", "D={w} A={x}", "show {w} > /dev/null", "show {w} 2>&1 {x}",
    "V=()", "IFS=,; show $B; unset IFS",
    "case ${n} in {p}) show {w};; x*|1) show {x} ;; *) D=;; esac",
    "{c} && show {w}", "{c} || D={w}", "{c} && {d} && A=7",
    "show {w} | cat", "echo {w} | show {x}", "( A={w}; show $A )", ": ${{D:={w}}}", "bash <<EOF\nshow $C $A\nEOF",
    "bash <<'EOF'\nshow $C $A\nEOF", "cat <<EOF > /dev/null\n{w}\nEOF", "true # --tp 8 \\", "show {w} \\\n  {x}",
)  # fmt: skip
NESTED = (
    "if {c}; then\n{b}\nelif {d}; then {s}\nelse\n{t}\nfi", "for A in {w} {x}; do\n{b}\ndone", "(\n{b}\n)\n{s}",
    "for ((J{level}=0; J{level}<{j}; J{level}++)); do\n{b}\ndone", "{{ {s}\n{b}\n}}",
    "f() {{\nlocal D={w} V\n{b}\nshow $1\n}}\n{s}",
    "f() {{\n{b}\nshift\nshow $# $1\nreturn 0\nshow never\n}}\nf {w} {x}",
    "J{level}=0\nwhile [ $J{level} -lt {j} ]; do\nJ{level}=$((J{level}+1))\n{b}\ndone",
    "for A in 1 2 3; do\n[ $A = 2 ] && continue\n{s}\n[ $A = 3 ] && break\ndone",
    "case ${n} in\n{p})\n{b}\n;;\nx*)\n{s}\n;;\nesac",
    "until {c} || true; do\n{b}\ndone", "if ! {c} && {d}\nthen {s}\nfi",
    "bash -c '\nshow in $C\nexit 0\nshow out\n'\n{s}",
)  # fmt: skip


class Writer:
    """Writes a script by a random number's will."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.within = False  # a function, which calls none: no script calls itself for ever

    def script(self) -> str:
        body = "\n".join(self.statement(3) for _ in range(self.random.randint(1, 4)))
        return f'f() {{ show f "$@"; }}\n{BEGIN}\n{body}\nshow "$A" "$B" "$D" "${{V[@]}}" $I\n'

    def filled(self, template: str, level: int = 0, depth: int = 1) -> str:
        r = self.random
        parts = {
            "n": lambda: r.choice(TEXTS), "m": lambda: r.choice(TEXTS), "p": lambda: r.choice(PATTERNS),
            "w": lambda: self.word(depth), "x": lambda: self.word(depth), "e": lambda: self.number(2),
            "f": lambda: self.number(1), "c": lambda: self.filled(r.choice(CONDITIONS)),
            "d": lambda: self.filled(r.choice(CONDITIONS)), "s": lambda: self.statement(0),
            "t": lambda: self.statement(level - 1), "i": lambda: str(r.randint(-3, 6)),
            "j": lambda: str(r.randint(0, 3)),
            "b": lambda: "\n".join(self.statement(level - 1) for _ in range(r.randint(1, 2))),
            "level": lambda: str(level),
        }  # fmt: skip
        outer, self.within = self.within, self.within or template.startswith("f() {{")
        used = {name: make() for name, make in parts.items() if f"{{{name}}}" in template}
        self.within = outer
        return template.format(**used)

    def statement(self, level: int) -> str:
        nested = level > 0 and self.random.random() < 0.4
        template = self.random.choice(NESTED if nested else SIMPLE)
        calls = template.startswith(("f ", "A=6 f")) or template.endswith("f {w} {x}")
        return self.filled("show {w}" if calls and self.within else template, level)

    def word(self, depth: int) -> str:
        r, parts = self.random, []
        for _ in range(r.choice((1, 1, 2, 3))):
            kind = r.randint(0, 4)
            if kind < 2 or depth < 0:
                parts.append(r.choice(LITERALS if depth == 1 else PLAIN))
            elif kind < 4:
                parts.append(self.filled(r.choice(PARAMETERS), depth=depth - 1))
            else:
                inside = self.filled(r.choice(PARAMETERS), depth=-1) if r.random() < 0.7 else ""
                quoted = "" if '"' in inside or "'" in inside else inside
                parts.append(f'"{r.choice(("", "q r", "s"))}{quoted}{r.choice(("", " ", "t"))}"')
        return "".join(parts)

    def number(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.4:
            return self.random.choice(NUMBERS)
        return self.random.choice(OPERATIONS).format(self.number(depth - 1), self.number(depth - 1))
