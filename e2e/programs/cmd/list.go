package main

// prepare gives a program a host and files of its own, always the same ones.
const prepare = `set -e
mount -t proc proc /proc
mount -t tmpfs tmpfs /tmp
hostname host
mkdir /tmp/work
cd /tmp/work
for i in $(seq 1 200); do echo "$i: the quick brown fox — 漢字 é jumps over line $i"; done >poem.txt
for i in $(seq 1 40); do printf 'a%sword ' $i; done >long.txt
printf '%s\n' '日本語の文章は折り返されます。そして続きます。もっと長い行にするために、さらに文字を加えます。終わり。' \
	'한국어 문장도 있습니다 🎉 이모지 👍🏽 👨‍👩‍👧 🇩🇪 ❤️ end' 'e\xcc\x81 a\xcc\x88\xcc\x81 combining' >wide.txt
python3 -c 'import random,sys; random.seed(7); sys.stdout.buffer.write(bytes(random.randrange(256) for _ in range(9000)))' >random.bin
printf '#include <stdio.h>\n\nint main(void)\n{\n\tprintf("hi\\n"); // greets\n\treturn 0;\n}\n' >hello.c
set +e
export PS1='$ '
`

// repository makes a git repository with always the same commits.
const repository = `
export GIT_AUTHOR_DATE='2026-01-02T03:04:05Z' GIT_COMMITTER_DATE='2026-01-02T03:04:05Z' GIT_CONFIG_GLOBAL=/tmp/config
git config --global user.name A; git config --global user.email a@example.org
git init -q -b main .; git add hello.c; git commit -qm 'first'
for i in $(seq 1 30); do echo "// $i" >>hello.c; git commit -qam "change number $i, with ünïcode"; done
git checkout -qb side HEAD~9; echo x >x; git add x; git commit -qm 'aside'; git checkout -q main; git merge -q --no-edit side
`

// program is one to be recorded.
type program struct {
	name    string
	command string   // of a shell
	env     []string // besides
	steps   []string // keys, none to wait again, or another size as @ROWSxCOLS
	most    int      // bytes of output, 48 KiB if 0
}

const (
	up, down, right, left = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
	pageDown              = "\x1b[6~"
	f3, f5, f9, f10       = "\x1bOR", "\x1b[15~", "\x1b[20~", "\x1b[21~"
	ctrlA, ctrlC, ctrlE   = "\x01", "\x03", "\x05"
	ctrlR, ctrlX, ctrlW   = "\x12", "\x18", "\x17"
)

var programs = []program{
	{name: "vim", command: "vim -u NONE -N --cmd 'syntax on' --cmd 'set number mouse=a ruler incsearch hlsearch' hello.c", steps: []string{
		"oint x = 1;\x1b", ":vsplit poem.txt\r", "/fox\r", "10j", "dd", "yyp", ":split wide.txt\r", "\x17\x17", "@30x100", "\x06", "@20x60", "V5jd", "u", ":set wrap!\r", "50A long\x1b", ":q!\r", ":qa!\r",
	}},
	{name: "vim-paste", command: "vim -u /dev/null --cmd 'set nocompatible' paste.txt", steps: []string{
		"i", "\x1b[200~pasted one\npasted two\twith 漢字\n\x1b[201~", "\x1b", "gg", "\"ayG", "10\"ap", "G", "\x02", ":wq\r",
	}},
	{name: "less", command: "less poem.txt", steps: []string{" ", "d", "/line 99\r", "n", "G", "-S", "b", "@12x40", "F", ctrlC, "@24x80", "h", "q", "g", "q"}},
	{name: "man", command: "cat >cat.1 <<'X'\n.TH CAT 1\n.SH NAME\ncat \\- joins\n.SH DESCRIPTION\n.B bold\nand\n.I italic\ntext that is long enough to be filled into several lines of the terminal by groff, as manual pages are.\n.TP\n\\-x\nan option\n.br\nX\nfor i in $(seq 30); do echo \".TP\n.B \\-\\-option$i\nwhat it does\" >>cat.1; done\nMANPAGER='less -R' man ./cat.1", steps: []string{" ", "/option9\r", "@30x60", "q"}},
	{name: "top", command: "top -d 100", steps: []string{"1", "c", "E", "z", "x", "V", "@15x60", "h", "q", "q"}},
	{name: "htop", command: "htop -d 100 --no-mouse", steps: []string{down, down, "t", "\x1bOQ", right, "\x1b", f10}},
	{name: "nano", command: "nano -T 4 poem.txt", steps: []string{"typed text", "\r", down, down, "\x0b", "\x0b", "\x15", "\x16", ctrlW + "fox\r", "\x1b[1;5C", "\x00" + down + down, "@16x50", "\x07", ctrlX, "@24x80", ctrlX, "n"}},
	{name: "joe", command: "joe poem.txt", steps: []string{"typed ", "\x0bh", "\x0bh", "\x0bv", down, "\x19", "\x03", "y"}},
	{name: "emacs", command: "emacs -nw -Q poem.txt", steps: []string{"typed ", "\x0e\x0e", "\x0b\x0b", "\x19", "\x18" + "2", "\x18o", "\x16", "\x18" + "3", "@30x90", "\x13fox", "\r", "\x1bx", "tetris\r", "\x18k\r", "\x18\x03", "n", "yes\r"}},
	{name: "mc", command: "mc --nomouse -u", steps: []string{down, down, f3, pageDown, f3, f9, right, right, "\x1b\x1b", "\t", "@30x90", f5, "\x1b\x1b", "\x0f", "\x0f", f10, "\r"}},
	{name: "fzf", command: "seq 1000 | fzf --multi --preview 'head -{} poem.txt' --prompt '漢> '", steps: []string{"9", "9", "\t", "\t", "\x1b[A", "\x15", "10", "@18x60", "\r"}},
	{name: "fzf-inline", command: "bash --norc -c 'for i in $(seq 20); do echo $i; done; seq 300 | fzf --height 8 --border --reverse; echo picked'", steps: []string{"2", "7", down, "\r"}},
	{name: "dialog", command: "dialog --colors --title 'A title' --menu 'Choose \\Zbone\\Zn' 15 50 4 1 one 2 two 3 '漢字 three' 4 four; dialog --gauge progress 8 40 < <(seq 0 20 100); dialog --inputbox 'Name' 8 40; dialog --calendar when 3 40 1 2 2026; dialog --textbox poem.txt 20 70", steps: []string{down, down, "\r", "text", "\x7f", "\r", right, "\r", pageDown, "\r"}},
	{name: "whiptail", command: "whiptail --title List --checklist 'Pick some' 15 50 4 a one on b two off c three off; whiptail --yesno 'Sure?' 8 40; whiptail --gauge Wait 8 50 0 < <(seq 0 25 100)", steps: []string{" ", down, " ", "\t", "\r", "\t", "\r"}},
	{name: "git-log", command: repository + "git log --graph --stat --color=always --decorate | LESS= less -R", steps: []string{" ", " ", "/aside\r", "G", "q"}},
	{name: "git-diff", command: repository + "git -c core.pager='less -RFX' diff --color --stat -p --word-diff HEAD~3", steps: []string{"q"}},
	{name: "tig", command: repository + "tig", steps: []string{down, down, "\r", down, "t", "q", "@20x70", "q", "q"}},
	{name: "tmux", command: "unset TMUX; tmux -f /dev/null -L one new -s a 'PS1=\\$\\  bash --norc'", steps: []string{
		"echo hello\r", "\x02%", "seq 100\r", "\x02\"", "cat wide.txt\r", "\x02o", "ls -l --color=always\r", "@30x100", "\x02z", "\x02z", "\x02c", "top -n1 -b | head -20\r", "\x02[", "\x02", "q", "\x02w", "q", "\x02?", "q", "\x02t", "q", "\x02:kill-server\r",
	}},
	{name: "bash", command: "bash --norc", steps: []string{
		"echo one two three", ctrlA, "\x1bf", "\x1bd", ctrlE, " " + "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 wraps", ctrlA, "\x1bf\x1bf" + "inserted ", ctrlE, "\x15", "\x19", "\r",
		"echo 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字", left + left + "é", "\x7f\x7f", "\r", ctrlR + "one", "\r", "@24x40", up + up, ctrlA + "x", ctrlC, "ls /tmp/wo\t\t\r", "@10x30", "seq 30\r", "@24x80", "exit\r",
	}},
	{name: "bash-paste", command: "bash --norc", steps: []string{"\x1b[200~echo a\necho b\n\x1b[201~", "\r", "\x0c", "for i in 1 2 3; do\recho $i\rdone\r", "printf '\\e[1;3;4;9mx\\e[22my\\e[0m\\n'\r", "exit\r"}},
	{name: "zsh", command: "zsh -f", env: []string{"ZDOTDIR=/tmp"}, steps: []string{"autoload -U compinit; compinit -u\r", "setopt autolist menucomplete; RPROMPT='%~ right'\r", "ls /usr/b\t\t", ctrlA + "x" + ctrlE, "\x15", "print -P '%F{red}r%f %K{blue}b%k %Bbold%b'\r", "echo " + "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 wraps", ctrlA, "\x1bf y", "@20x50", "\r", "printf 'no newline'\r", "exit\r"}},
	{name: "fish", command: "fish --no-config", steps: []string{"echo hello wo", "rld\r", "ls /usr/s\t", "\t", ctrlC, "for i in 1 2", "\r", "echo $i", "\r", "end\r", "@20x50", "echo " + "0123456789 0123456789 0123456789 0123456789 0123456789 wraps", ctrlA, up, "\r", "exit\r"}},
	{name: "screen", command: "SCREENDIR=/tmp/s; mkdir -m 700 /tmp/s; export SCREENDIR; screen -U -c /dev/null bash --norc", steps: []string{"echo 漢字 é\r", "seq 40\r", "\x01S", "\x01\t", "\x01c", "ls -l\r", "@30x100", "\x01[", "\x15", "\x1b", "\x01?", " ", "exit\r", "exit\r"}},
	{name: "python", command: "python3 -q", steps: []string{"def f(x):\r    return x * 2\r\r", "f(21)\r", "[i**3 for i in range(60)]\r", "print('\\x1b[31mred\\x1b[0m', '漢字'*30)\r", "1/0\r", "import this\r", up + up, "\x15", "exit()\r"}},
	{name: "wide", command: "cat wide.txt wide.txt; tput cols; printf '漢%.0s' $(seq 100); echo; column -c 70 wide.txt; printf 'x%s\\r' 漢字漢字; printf '\\e[5C\\e[1P\\e[2@y\\n'", steps: []string{"@24x41", "@24x80"}, most: 16 << 10},
	{name: "yes", command: "yes 'yes, this line comes again and again' | head -3000", most: 96 << 10},
	{name: "binary", command: "cat random.bin", most: 16 << 10},
	{name: "invalid", command: `printf 'a\xffb\xc3(\xe2\x82x\xf0\x9f\x98\xed\xa0\x80\xc0\xaf\xfe z\n'; for i in $(seq 20); do head -c $((i*37)) random.bin | tr '\000-\037\177-\237' '[x*]'; echo; done`},
	{name: "progress", command: `for i in $(seq 0 4 100); do printf '\r\e[K[%-25s] %3d%%' "$(head -c $((i/4)) /dev/zero | tr '\0' '#')" $i; done; echo
printf '\n\e7\e[0;23r\e8\e[1A'; for i in $(seq 0 5 100); do printf '\e7\e[24;0f\e[42m\e[30mProgress: [%3d%%]\e[49m\e[39m [%-50s]\e8' $i "$(head -c $((i/2)) /dev/zero | tr '\0' '#')"; echo "Unpacking package $i ..."; done; printf '\e7\e[0;24r\e8\e[1A\e[J'; echo done`},
	{name: "apt", command: `mkdir -p /tmp/root/etc /tmp/root/var/lib/dpkg /tmp/p/DEBIAN; for i in 1 2 3 4 5 6; do printf 'Package: demo%d\nVersion: 1\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: demo\n' $i >/tmp/p/DEBIAN/control; dpkg-deb -b /tmp/p /tmp/demo$i.deb >/dev/null; done
mkdir -p /tmp/u /tmp/w; mount -t overlay overlay -o lowerdir=/var/lib/dpkg,upperdir=/tmp/u,workdir=/tmp/w /var/lib/dpkg; DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -o Dpkg::Progress-Fancy=1 -o Dpkg::Use-Pty=1 -o Dir::Log=/tmp -o Dir::Cache=/tmp -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=/tmp/u -o Debug::NoLocking=1 /tmp/demo[1-6].deb`, steps: []string{"", "", "", "", "", ""}},
	{name: "tetris", command: "tetris-bsd", steps: []string{"j", "l", "k", " ", "j", " ", "p", "q"}, most: 24 << 10},
	{name: "worms", command: "worms -n 5 -l 20 -d 20 -t", most: 32 << 10},
	{name: "snake", command: "nsnake", steps: []string{"\r", "\r", left, down, "q"}, most: 32 << 10},
	{name: "invaders", command: "nInvaders", steps: []string{" ", left, " ", "q"}, most: 32 << 10},
	{name: "buggy", command: "moon-buggy -n", steps: []string{" ", "q"}, most: 24 << 10},
	{name: "train", command: "sl -F", most: 40 << 10},
	{name: "matrix", command: "cmatrix -b -u 3", steps: []string{"q"}, most: 32 << 10},
	{name: "robots", command: "robots", steps: []string{"h", "j", "l", "t", "k", "q", "y"}},
	{name: "ncdu", command: "ncdu -0 --color dark /tmp", steps: []string{down, "i", "i", "?", "q", "d", "n", "q"}},
	{name: "w3m", command: `printf '<h1>Title</h1><table border=1><tr><td>one<td>漢字<tr><td>three<td><b>four</b></table><p>%s<ul><li>a<li><a href=x>link</a></ul>' "$(cat long.txt)" >x.html; w3m x.html`, steps: []string{down, "\t", "=", "B", "@20x50", "q", "y"}},
	{name: "vttest", command: "vttest", steps: []string{"1\r", "\r", "\r", "\r", "\r", "\r", "\r", "2\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "0\r"}},
	{name: "vttest-edit", command: "vttest", steps: []string{"8\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "0\r"}},
	{name: "vttest-iso", command: "vttest", steps: []string{"11\r", "1\r", "2\r", "\r", "\r", "0\r", "\r", "6\r", "\r", "0\r", "0\r", "0\r"}},
}
