package screen

import "testing"

func TestHTML(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "\n\n"},
		{"a <b> & \"c\"", "a &lt;b&gt; &amp; &#34;c&#34;\n\n"},
		{"\x1b[1;31mred\x1b[0m plain", "<span style=\"color:#cd0000;font-weight:bold\">red</span> plain\n\n"},
		{"\x1b[7mon\x1b[0m", "<span style=\"color:var(--back,#000);background:var(--fore,#ddd)\">on</span>\n\n"},
		{"\x1b[4;9;3mx", "<span style=\"font-style:italic;text-decoration:underline line-through\">x</span>\n\n"},
		{"\x1b[38;5;196ma\x1b[48;5;244mb\x1b[38;2;1;2;3mc", "<span style=\"color:#ff0000\">a</span><span style=\"color:#ff0000;background:#808080\">b</span>" +
			"<span style=\"color:#010203;background:#808080\">c</span>\n\n"},
		{"漢字 e\u0301", "漢字 e\u0301\n\n"},
		{"\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\", "link\n\n"},
		{"one\r\n\x1b[44m \x1b[0m", "one\n<span style=\"background:#0000ee\"> </span>\n"},
	} {
		s := New(2, 20)
		s.Write([]byte(c.in))
		if got, want := HTML(s), "<pre class=\"terminal\">"+c.want+"</pre>\n"; got != want {
			t.Errorf("%q is %q, want %q", c.in, got, want)
		}
	}
}
