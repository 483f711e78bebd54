// Package console holds tests of the console through the real program, in Debian's Chromium (console_test.go): a browser is
// logged in by a link, sees sessions begin, sleep and wake, suspends, resumes and forks them, uses a terminal through a suspend
// and a cut connection, and is told when its login or the stream of events has ended. The pages of the fleet,
// of policies, keys, tokens and the audit are used, and each program that the page "Connect" has is run. axe looks for what keeps people
// out, in light and dark, and nothing may ask another origin. Terminals have an editor open through suspends, and two people in them; a port is
// opened that makes its visitor wait; names are long, clocks wrong, files don't come.
//
// TestManySessions and TestAttach measure, with DIAPAUSE_LONG, how soon a page shows a change of one in 10,000 sessions, and the prompt of one that
// slept; TestFrames, how soon the picture of a desktop that slept, and the desktop. TestPictures looks at the pictures that documents show, and takes them with -update (`make screenshots`). Pages whose
// content takes days or faults are tried with an API that is made up (faked_test.go). What is committed of others is compared with npm (vendored_test.go). The package has tests alone.
package console
