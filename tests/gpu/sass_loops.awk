# sass_loops.awk: reads `nvdisasm -c`, prints for every function with HGMMA its innermost loops
# around them, and fails where one has LDL or STL, or where there is no such loop. With -v opcodes=1
# it prints instead, for causal_loops.sh, a line for each opcode of each innermost loop around HGMMA or
# HMMA: function, number of the loop, opcode, how many.
#
# A loop is a natural one: the branch at b back to t closes it if b cannot be reached from the
# function's start but through t. So the way back from code that was moved out of line is none.

BEGIN { count = 0 }

/^\t?\.section\t/ {
  finish()
  name = ""
  if (match($0, /\.text\.[A-Za-z0-9_]+/)) name = substr($0, RSTART + 6, RLENGTH - 6)
  next
}
/^\.L_[A-Za-z0-9_]+:/ {
  label = $1
  sub(/:.*/, "", label)
  place[label] = count + 1
  next
}
name != "" && /^ *\/\*[0-9a-f]+\*\// {
  line = $0
  sub(/^ *\/\*[0-9a-f]+\*\/ */, "", line)
  predicated = sub(/^@!?U?P[0-9T]+ +/, "", line)
  ++count
  split(line, words, /[ ;]/)
  code[count] = words[1]
  target[count] = ""
  if (words[1] ~ /^BRA/ && match(line, /\.L_[A-Za-z0-9_]+/))
    target[count] = substr(line, RSTART, RLENGTH)
  ends = words[1] == "BRA" && line !~ /U?P[0-9T]+,/ || words[1] ~ /^(EXIT|RET|KILL|BRX|JMP)/
  falls[count] = predicated || !ends
}
END {
  finish()
  exit faults > 0
}

# before[i]: from where i is reached.
function link(   i, t) {
  for (i = 1; i <= count; ++i) before[i] = ""
  for (i = 1; i <= count; ++i) {
    if (falls[i] && i < count) before[i + 1] = before[i + 1] " " i
    if (target[i] == "") continue
    t = place[target[i]]
    before[t] = before[t] " " i
  }
}

# Marks in body[] what reaches `from` without passing `head`; whether that leaves out the start.
function walk_back(head, from,   stack, depth, i, n, list, k) {
  split("", body)
  body[head] = 1
  stack[depth = 1] = from
  while (depth) {
    i = stack[depth--]
    if (i in body) continue
    body[i] = 1
    if (i == 1) return head == 1
    n = split(before[i], list, " ")
    for (k = 1; k <= n; ++k) if (!(list[k] in body)) stack[++depth] = list[k]
  }
  return 1
}

# The loops around products: loop[l, i] marks instructions, size[l] counts them. One head, one loop.
function find_loops(   b, t, i, l, products) {
  loops = 0
  for (b = 1; b <= count; ++b) {
    if (target[b] == "") continue
    t = place[target[b]]
    if (t > b || !walk_back(t, b)) continue
    products = 0
    for (i in body) if (code[i] ~ (opcodes ? "^HG?MMA" : "^HGMMA")) ++products
    if (!products) continue
    for (l = 1; l <= loops && head[l] != t; ++l) continue
    if (l > loops) {
      ++loops
      head[l] = t
      size[l] = 0
    }
    for (i in body)
      if (!((l, i) in loop)) {
        loop[l, i] = 1
        ++size[l]
      }
  }
}

function innermost(l,   other) {
  for (other = 1; other <= loops; ++other)
    if (other != l && size[other] < size[l] && (l, head[other]) in loop) return 0
  return 1
}

function list_opcodes(   l, i, opcode, of) {
  for (l = 1; l <= loops; ++l) {
    if (!innermost(l)) continue
    split("", of)
    for (i = 1; i <= count; ++i) if ((l, i) in loop) ++of[code[i]]
    for (opcode in of) print name, l, opcode, of[opcode]
  }
}

function report(   l, i, shown, products, local, has_products) {
  for (i = 1; i <= count; ++i) has_products += code[i] ~ /^HGMMA/
  if (!has_products) return
  for (l = 1; l <= loops; ++l) {
    if (!innermost(l)) continue
    products = local = 0
    for (i = 1; i <= count; ++i) {
      if (!((l, i) in loop)) continue
      products += code[i] ~ /^HGMMA/
      local += code[i] ~ /^(LDL|STL)/
    }
    ++shown
    printf "%s%s: a loop of %d instructions: %d HGMMA, %d LDL or STL\n", local ? "FAULT: " : "",
           name, size[l], products, local
    faults += local > 0
  }
  if (!shown) {
    printf "FAULT: %s: %d HGMMA, in no loop\n", name, has_products
    ++faults
  }
}

function finish() {
  if (name != "" && count) {
    link()
    find_loops()
    if (opcodes) list_opcodes()
    else report()
  }
  split("", place)
  split("", loop)
  count = 0
}
