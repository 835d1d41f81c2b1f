"""The shell that only reads, against bash itself: what a script hands to its commands, and what it leaves open."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress

import pytest

from comp_comm.configs.importers.shell import Shell
from comp_comm.configs.importers.shell_scope import ShellLimitError, is_undecided, is_unset, readable, without_unset

BASH = shutil.which("bash")
SHOW = 'show() { [ $# = 0 ] || printf "%s\\0" "$@" >&3; printf "\\n\\0" >&3; }; export -f show\n'
# Scripts that set variables and hand them on; what bash makes of them is what `show` is given.
SCRIPTS = {
    "comment ends at its newline": "# old: --a 1 \\\nA=1\nshow $A # tail \\\nshow two",
    "comment within a command": "show a \\\n# b \\\n c",
    "continued lines": "show --a 1 \\\n  --b 2 \\\n\n  show c",
    "words and quotes": "A='x  y'; show $A \"$A\" '$A' \"\\$A\" a\\ b \"\" ''",
    "a word in parts": "A=1; show --n=$A\"b c\"'d'${A}e",
    "strings with escapes": "show $'a\\tb\\n\\x41' \"a\\nb\" \"q\\\"q\" \"t\\\\\"",
    "default values": "show ${A:-8} ${A:-b c} \"${A:-b c}\" ${A:=4} $A ${A:-9} ${A:+on} ${B:+on} end",
    "empty is not unset": "A=; show ${A-x} ${A:-y} ${A+z} ${A:+w} end",
    "default in default": "B=3; show ${A:-${B:-4}} ${C:-$((B*2))} ${D:-$(echo 5)}",
    "cut beginnings and ends": "P=/data/run-1/ckpt.tar.gz; show ${P##*/} ${P#*/} ${P%.*} ${P%%.*} ${P%/*} ${#P}",
    "replaced parts": "L=a,b,c; show ${L//,/ } ${L/,/-} ${L/#a/x} ${L/%c/y} \"${L//,/ }\" ${L//,}",
    "parts of a text": "W=abcdef; show ${W:2} ${W:1:3} ${W: -2} ${W:0:2}",
    "upper and lower case": "M=Gpt; show ${M^^} ${M,,} ${M^} ${M,}",
    "variables by their name": "X=7; N=X; show ${!N} ${N}",
    "arrays": "A=(1 '2 3' four); A+=(5); "
    "show ${A[@]} \"${A[@]}\" \"${A[*]}\" ${#A[@]} ${A[1]} $A \"${A[@]:1:2}\" ${!A[@]}",
    "arrays over lines": "A=(\n --a 1  # why\n --b 2\n #--c 3\n)\nshow ${A[@]}",
    "an element of an array": "A=(x y z); A[1]=Y; A[3]=w; unset 'A[0]'; show ${A[@]} ${A[-1]}",
    "arrays of names": "declare -A M=([a]=1 [b]='2 3'); M[c]=4; show ${M[a]} \"${M[b]}\" ${M[c]}",
    "arrays within arrays": "A=(1 2); B=(0 \"${A[@]}\" 3); show ${B[@]} \"x${A[@]}y\"",
    "an empty array": "A=(); show a \"${A[@]}\" ${A[@]} b ${A[@]+x}",
    "arithmetic": "N=4; show $((N*8)) $((2**3)) $((N>3?1:0)) $(( (N+1) % 3 )) $((7/2)) $((-7/2)) $[N+1] "
    "$((N<<1)) $((0x10))",
    "arithmetic that sets": "((A=3)); ((A+=2)); let B=A*2; ((B++)); show $A $B $((A++)) $A $((--A)) $A",
    "arithmetic on texts": "A='1+2'; show $((A*2)) $(($A*2))",
    "additions": "A=1; A+=2; B='x'; B+=' y'; show $A $B \"$B\"; declare -i C=1; C+=2; show end",
    "substituted commands": "A=$(echo 5); B=`echo 6`; C=$(printf '%s-%d' x 7); "
    "show $A $B $C \"$(echo a b)\" $(echo a b)",
    "substitution with a pipe": "show $(echo a b | wc -w) $(echo a,b | tr , -) end",
    "commands of the shell": "A=$(basename /a/b.sh) B=$(dirname /a/b.sh); show $A $B $(seq 3) \"$(seq 1 2 5)\"",
    "choices": "A=2; if [ $A -eq 2 ]; then B=y; else B=n; fi; [[ $A == 2 ]] && show and; [ $A = 3 ] || show or; "
    "show $B",
    "more choices": "A=b; if [ $A = a ]; then X=1; elif [ $A = b ]; then X=2; else X=3; fi; show $X",
    "tests of texts": "A=; B=x; [ -z \"$A\" ] && show z; [ -n \"$B\" ] && show n; "
    "[[ -z $A && -n $B ]] && show both; [[ ! -z $B ]] && show not",
    "tests of patterns": "A=gpt-7b; [[ $A == gpt-* ]] && show glob; [[ $A != *13b ]] && show other",
    "tests of numbers": "A=5; [ $A -gt 4 -a $A -lt 6 ] && show a; (( A > 4 && A < 6 )) && show b; "
    "[[ $A -ge 5 ]] && show c; ((A==6)) || show d",
    "cases": "for A in small large x; do case $A in small|tiny) show 1;; l*) show 2;; *) show 3;; esac; done",
    "loops over words": "for A in 1 2 3; do show $A; done; for A in a{1,2}b; do show $A; done; L='p q'; "
    "for A in $L; do show $A; done",
    "loops that count": "for ((i=0; i<3; i++)); do show $i; done; i=0; while [ $i -lt 2 ]; do show w$i; "
    "i=$((i+1)); done",
    "loops that are left": "for i in 1 2 3 4; do [ $i = 2 ] && continue; [ $i = 4 ] && break; show $i; done; "
    "until true; do show never; done",
    "braces": "show {1..3} a{b,c}d {a..c} {08..10} x{1..2}{a,b} {1..5..2} '{1,2}' {one}",
    "functions": "f() { local A=$1; show f $A \"$@\" $#; shift; show $1 $*; B=set; }\nA=o; f 1 '2 3'; show $A $B",
    "functions that return": "f() { show in; return 1; show not; }\nf || show failed; g() { return 0; }; "
    "g && show fine",
    "arguments set": "set -- a 'b c' d; show $1 \"$2\" $# \"$@\"; shift 2; show $1 $#",
    "exports": "export A=1 B='2 3'; C=4; bash -c 'show $A \"$B\" [$C]'",
    "environments for one command": "A=1 B=2; A=5 bash -c 'show $A'; show $A",
    "commands in a variable": "CMD='show --a 1'; ARGS='--b 2'; $CMD $ARGS; eval \"$CMD \\\"x y\\\"\"; \"show\" last",
    "bash -c in quotes": "export L='show'; export C=' a --b 1 '; bash -c '$L x $C'; D=5; bash -c \"show $D\"; "
    "sh -c 'echo' >/dev/null",
    "bash -c with arguments": "bash -c 'show $0 $1 \"$@\"' zero one 'two three'",
    "redirections": "show a > /dev/null b 2>&1 c >>/dev/null; show d 2> /dev/null; { show e; } > /dev/null 2>&1",
    "pipelines": "show a | cat; show b 2>&1 | tee /dev/null; echo x | show c",
    "lists": "show a; show b && show c; false && show no; false || show d; ! false && show e; true; show f &\nwait",
    "subshells": "A=1; (A=2; show $A); show $A; { A=3; show $A; }; show $A",
    "here documents": "A=5\ncat <<EOF > /dev/null\nx $A\nEOF\nshow after",
    "a script in a here document": "A=5\nbash <<EOF\nshow $A\nEOF\nbash <<'EOF'\nB=6\nshow $B\nEOF\nshow end",
    "here strings": "read X Y <<< 'a b'; show $X $Y",
    "mapped arrays": "IFS=, read -r -a P <<< '4,8,16'; show ${P[0]} ${P[2]}",
    "defaults that are set": ": ${TP:=8} \"${PP:=2}\"; show $TP $PP; A=1; : ${A:=9}; show $A",
    "conditions on what is set": "[ -z ${TP+x} ] && TP=4; [ ${PP:-0} -gt 0 ] || PP=2; show $TP $PP",
    "declarations": "declare A=1; typeset B=2; readonly C=3; declare -r D=4; local_ok() { local E F=6; E=5; "
    "show $E $F; }; local_ok; show $A $B $C $D",
    "unset": "A=1; B=2; unset A; show [$A] $B; unset -v B; show [$B]",
    "split by other letters": "S=a:b; IFS=:; set -- $S; show $1 $2",
    "tilde and globs stay": "cd / && show /no-such-*file 'a*'",
    "one line": "A=1;if true;then show $A;fi;for i in 1;do show $i;done;while false;do show no;done",
    "negative exponents and floats stay": "LR=1.5e-4; show $LR -1e-5 --x=-3",
    "equals in words": "show A=1 --lr=2 x=y=z",
    "numbers with leading zeros": "show 007 $((10#08)) $((8#17))",
    "last words are returned": "f() { echo \"$1-$2\"; }; A=$(f x y); show $A $(f 1 2)",
    "a choice in an argument": "A=1; show $([ $A -eq 1 ] && echo yes || echo no) $(if [ $A = 2 ]; then echo p; "
    "else echo q; fi)",
    "plus after a word": "show a+ +b '+=' a+=1",
    "long options of an array": "O=(--a=1 --b \"c d\"); show \"${O[@]/--a/--z}\"",
    "exits": "show a; exit 0; show b",
    "exits in a subshell": "(exit 1); show a; (exit 0) && show b",
    "letters of other alphabets": "A=\u4e2d\u6587; show $A \"{\u00e9}\" {\u4e2d,b}c '\u2028' # \u4e2d",
    "assignments before a word of the language": "V=1\nA=1 B=2\n{ read -a V <<< 'x y'\n}\nA=1 B=2\n"
    "until true; do :; done\nA=3 B=4\nfor i in 1; do A=5 C=6\ndone\nshow $A $B $C ${V[@]}",
    "errors end it": "set -e; A=1; false || true; show $A",
}  # fmt: skip


def by_bash(script, folder, complaints=False):
    """Return what ``show`` is given when bash runs the script, with nothing set before; with what bash says of it."""
    path = folder / "out"
    command = f"exec 3>{path}\n{SHOW}{script}\n"
    clean = {"PATH": os.environ["PATH"], "HOME": "/root"}
    ran = subprocess.run([BASH, "-c", command], env=clean, cwd=folder, timeout=20, capture_output=True, check=False)
    calls = [call.split("\0")[:-1] for call in path.read_text().split("\n\0")[:-1]]
    return (calls, ran.stderr) if complaints else calls


def by_reading(script):
    """Return what ``show`` is given by the shell that only reads; what is not set is nothing."""
    shell = Shell()
    shell.run(script)
    calls = [command.words for command in shell.started if command.words[0] == "show"]
    return [[without_unset(word) for word in words[1:] if without_unset(word) or word == ""] for words in calls]


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_read_as_bash_runs_it(name, tmp_path):
    expected = by_bash(SCRIPTS[name], tmp_path)
    assert expected, "bash shows nothing: the script is no test"
    assert by_reading(SCRIPTS[name]) == expected


def calls_of(script):
    shell = Shell()
    shell.run(script)
    return [(list(map(readable, command.words[1:])), command.sure) for command in shell.started
            if command.words[0] == "show"]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "words", "sure"),
    [
        ('show $1 "$@" $TP', ["$1", "$@", "$TP"], True),
        ("show $((TP * 2))", ["$TP"], True),
        ("show $(nproc)", ["$(nproc)"], True),
        ("show $(echo 12 | sed s/1/3/)", ["$(echo 12 | sed s/1/3/)"], True),
        ("[ -f x ] && TP=2; show $TP", ["$TP"], True),
        ("TP=1; [ -f x ] && cd y && TP=2; show $TP", ["$TP"], True),
        ("TP=1; cd y && mkdir z && TP=2; show $TP", ["2"], True),
        ("if grep -q a b; then A=(--a 1); else A=(--b 2); fi; show ${A[1]}", ["$A"], True),
        ("if [ -f x ]; then show 1; fi", ["1"], False),
        ("A=gpt-7b; [[ $A =~ ([0-9]+)b ]] && show ${BASH_REMATCH[1]}", ["$BASH_REMATCH"], False),
        ("while read X; do show $X; done < hosts", ["$X"], False),
        ("A=1; source elsewhere.sh; show $A $B", ["1", "$B"], True),
    ],
)
def test_what_a_script_does_not_say_is_left_open(script, words, sure):
    assert calls_of(script) == [(words, sure)]


def test_a_variable_that_depends_is_not_one_without_a_value():
    shell = Shell()
    shell.run("[ -f x ] && A=2; show $A $B")
    depends, missing = shell.started[-1].words[1:]
    assert is_undecided(depends)
    assert not is_unset(depends)
    assert is_unset(missing)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "A=xxxxxxxxxx\n" + "A=$A$A\n" * 60,
        "A=(1 2 3)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 40,
        "f() { f; f; }; f",
        "f() { g; }; g() { f; }; f",
        "for i in " + "{1..9}" * 9 + "; do show $i; done",
        "for ((i=0;i<1000;i++)); do for ((j=0;j<1000;j++)); do A=$j; done; done",
        "A='A+A'; show $((A))",
        "echo " + "$(" * 300 + "echo" + ")" * 300,
        "eval " * 200 + "'show'",
        "show $((" + "(" * 5000 + "1" + ")" * 5000 + "))",
        "if true; then " * 3000 + "show" + "; fi" * 3000,
        "A=" + "x" * 4000 + "; show ${A//*x*y/z}",
        "printf -v A '%s' " + "{a,b}" * 22,
        "cat <<E\n" + "$A " * 40_000 + "\nE\n",
        "<a b>" * 20_000,
        "x $(( " + "$A+" * 40_000 + " 1 ))",
        "$((" * 50_000,
        "a=" * 200_000 + " <<<",
        "".join(f"A{i}={i}\n" for i in range(20_000)) + "if [ -f x ]; then B=1; fi\n" * 2000,
        "X='" + "<a b>" * 500 + "'\n" + 'for i in {1..1000}; do eval "$X"; done',
    ],
    ids=lambda script: script[:30].replace("\n", ";"),
)
def test_what_makes_too_much_of_itself_ends(script):
    """In a second or two, with what is not gone through told, or left open."""
    begin = time.process_time()
    with suppress(ShellLimitError, RecursionError):
        Shell().run(script)
    assert time.process_time() - begin < 5
