package stack

import (
	"fmt"
	"strconv"
	"strings"
)

// counting counts in memory and in a file. Both must agree at each step: a memory of one
// moment with the files of another ends it at once. What it printed it never takes back.
const counting = `i=0; echo 0 >/tmp/count
while :; do
	read n </tmp/count
	[ "$n" = "$i" ] || { echo "torn: $i in memory, $n in the file"; exit 1; }
	i=$((i+1)); echo $i >/tmp/count; echo $i
	sleep %s
done`

// Counting is a shell script for a session that prints what it counts to, from 1 on, with
// a pause of so many seconds between two numbers.
func Counting(seconds string) string { return fmt.Sprintf(counting, seconds) }

// Counted gives the last number that such a session has printed. An error says that it
// isn't the one that follows those before.
func Counted(out string) (n int, err error) {
	for _, word := range strings.Fields(out[:strings.LastIndex(out, "\n")+1]) {
		if got, err := strconv.Atoi(word); err != nil || got != n+1 {
			return n, fmt.Errorf("%q follows %d in:\n%s", word, n, out)
		}
		n++
	}
	return n, nil
}
