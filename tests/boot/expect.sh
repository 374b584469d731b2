# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tables of guests, and what has to hold in them, to be sourced. The form is
# described in tests/boot/cases.

# The table $1 with its groups filled in, one test a line, without blanks around |
expanded_cases()
{
	awk '
		/^#/ || /^[ \t]*$/ { next }
		{
			line = ""
			for (i = 1; i <= NF; i++)
				line = line " " (i > 1 && ($i in group) ? group[$i] : $i)
		}
		/^%/ { name = $1; sub(/^ %[a-z]+ = /, "", line); group[name] = line; next }
		line ~ /%/ { print "cases: unknown group in: " line > "/dev/stderr"; exit 1 }
		{ gsub(/ *\| */, "|", line); sub(/^ /, "", line); print line }' "$1"
}

# Prints the expectations of $2 that the facts in file $1 do not meet.
unmet()
{
	awk -v want="$2" '
		function value(v,	op, n) {
			if (v !~ /^@/)
				return v
			v = substr(v, 2)
			if (!match(v, /[+*][0-9]+$/))
				return fact[v]
			op = substr(v, RSTART, 1)
			n = substr(v, RSTART + 1)
			v = fact[substr(v, 1, RSTART - 1)]
			return op == "+" ? v + n : v * n
		}
		function holds(key, op, v,	have, times, named) {
			times = 1
			if (match(key, /\*[0-9]+$/)) {
				times = substr(key, RSTART + 1)
				key = substr(key, 1, RSTART - 1)
			}
			have = (key in fact) ? fact[key] : "nothing"
			shown = have
			if (op == "~")
				return have ~ v
			if (op == "!~")
				return have !~ v
			named = v
			v = value(v)
			shown = have (v == named ? "" : ", wanted " op " " v)
			if (op == "=")
				return have == v
			if (op == "!=")
				return have != v
			if (have !~ /^-?[0-9]+$/ || v !~ /^-?[0-9]+$/)
				return 0
			have = have * times
			v = v + 0
			return op == "<" ? have < v : op == "<=" ? have <= v : op == ">" ? have > v : have >= v
		}
		{ key = $1; sub(/^[^ ]* ?/, ""); fact[key] = $0 }
		END {
			n = split(want, words, " ")
			for (i = 1; i <= n; i++) {
				if (!match(words[i], /(!=|!~|<=|>=|=|<|>|~)/)) {
					print words[i] " (no operator)"
					continue
				}
				key = substr(words[i], 1, RSTART - 1)
				op = substr(words[i], RSTART, RLENGTH)
				if (!holds(key, op, substr(words[i], RSTART + RLENGTH)))
					print words[i] " (is " shown ")"
			}
		}' "$1"
}
