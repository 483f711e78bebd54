package inventory

import "strings"

// Class says what a difference means.
type Class string

// The classes of differences.
const (
	Refuse Class = "refuse" // a program could tell, and could fail
	Warn   Class = "warn"   // worth knowing
)

// classes are those of all aspects, with what is wrong when they differ.
var classes = map[string]struct {
	class Class
	what  string
}{
	"state":                    {Refuse, "whether it has ended"},
	"exit status":              {Refuse, "the status it left to its parent"},
	"session and group":        {Refuse, "job control and signals to a group go by them"},
	"controlling terminal":     {Refuse, "/dev/tty, job control and hang-ups go by it"},
	"parent":                   {Refuse, "who waits for it"},
	"nice and policy":          {Refuse, "its share of the processors"},
	"umask":                    {Refuse, "modes of the files that it makes"},
	aspectPending:              {Refuse, "a signal that was sent is lost or made up"},
	"ignored signals":          {Refuse, "a signal would end it, or not"},
	"handled signals":          {Refuse, "a signal would end it"},
	"blocked signals":          {Refuse, "a signal would come at another time"},
	"users":                    {Refuse, "what it may do"},
	"groups":                   {Refuse, "what it may do"},
	"capabilities":             {Refuse, "what it may do"},
	"no new privileges":        {Refuse, "what it may do"},
	"seccomp":                  {Refuse, "what it may do"},
	"CPU affinity":             {Refuse, "on which processors it runs"},
	"signal stack and futexes": {Refuse, "who waits for its locks when it ends"},
	"working directory":        {Refuse, "relative paths lead elsewhere"},
	"root directory":           {Refuse, "paths lead elsewhere"},
	"program":                  {Refuse, "what it executes"},
	"arguments":                {Warn, "how it is listed"},
	"name":                     {Warn, "how it is listed"},
	"limits":                   {Warn, "how much it may take"},
	"personality":              {Refuse, "how the kernel treats it"},
	"oom score":                {Warn, "whether it is killed when memory runs out"},
	"dump filter":              {Warn, "what a core dump holds"},
	"clock":                    {Refuse, "by what it is woken"},
	"signal":                   {Refuse, "by what it is woken"},
	"notify":                   {Refuse, "by what it is woken"},
	"file":                     {Refuse, "what the descriptor stands for"},
	"position":                 {Refuse, "where it reads and writes"},
	"flags":                    {Refuse, "how it reads and writes, and whether children get it"},
	"descriptors in flight":    {Refuse, "files that were sent and not yet received"},
	"counter":                  {Refuse, "events that were signalled"},
	"semaphore":                {Refuse, "how much one read takes"},
	"awaited signals":          {Refuse, "which signals it reads"},
	"terminal":                 {Refuse, "which terminal it is"},
	"clock's mode":             {Warn, "what its time counts from"},
	"interval":                 {Refuse, "how often it fires"},
	"timer":                    {Refuse, "whether it fires"},
	"process":                  {Refuse, "whose end it waits for"},
	"lock":                     {Warn, "others could take the lock"},
	"lease":                    {Warn, "who is told that a file is opened"},
	"bytes in it":              {Refuse, "data on its way is lost"},
	"room in it":               {Warn, "how much it takes"},
	"marks":                    {Refuse, "changes aren't told"},
	"signals whom":             {Refuse, "who is told of data"},
	"terminal's modes":         {Warn, "how input is read and echoed"},
	"terminal's size":          {Warn, "how much fits on a screen"},
	"seals":                    {Refuse, "what others may change"},
	"size and mode":            {Refuse, "what the file is"},
	AspectEvents:               {Warn, "changes of files that weren't read yet are lost"},
	"socket":                   {Refuse, "what it is"},
	"listens":                  {Refuse, "whether it can be connected to"},
	"interface":                {Refuse, "on which network it can be reached"},
	"bound to":                 {Refuse, "where it can be reached"},
	"connected to":             {Refuse, "with whom it speaks"},
	"connection":               {Refuse, "with whom it speaks"},
	"connection's options":     {Warn, "when data is sent"},
	AspectDatagrams:            {Warn, "datagrams that weren't read yet are lost"},
	"socket's options":         {Warn, "how it behaves"},
	"own name":                 {Warn, "how it is listed"},
	"other end's name":         {Warn, "how it is listed"},
	AspectPeer:                 {Warn, "as whom the other end connected"},
	"mapping's end":            {Refuse, "memory is missing"},
	"mapping's permissions":    {Refuse, "memory can't be used as before"},
	"mapped file":              {Refuse, "other memory is there"},
	aspectFlags:                {Refuse, "what the kernel may do with the memory"},
	aspectNumber:               {Refuse, "it is another file of the same name"},
	aspectThere:                {Refuse, "it is missing"},
	aspectMore:                 {Warn, "it wasn't there before"},
	aspectFlow:                 {Refuse, "data on its way is lost"},
	aspectTold:                 {Warn, "it is told once more to give up a lease"},
	aspectOnce:                 {Warn, "a hang-up may be told once more"},
	aspectAwaited:              {Refuse, "events aren't waited for"},
	aspectWatch:                {Refuse, "changes aren't told"},
	aspectWatched:              {Warn, "changes of another file are told"},
}

// Aspects that can be seen to get lost before a dump, and of which others may warn.
const (
	AspectDatagrams = "datagrams waiting"
	AspectEvents    = "unread events"
	AspectPeer      = "peer's credentials"
)

// Aspects of an object as a whole, and those whose names go on with a number.
const (
	aspectThere   = "existence"
	aspectMore    = "addition"
	aspectPending = "pending signals"
	aspectFlow    = "bytes on their way"
	aspectAwaited = "awaited file"
	aspectWatch   = "watch"
	aspectWatched = "watched file of"
	aspectOnce    = "awaited once, and told"
	aspectNumber  = "inode number"
	aspectTold    = "pending SIGIO of a lease"
	aspectFlags   = "mapping's flags"
)

// classOf gives the class of an aspect, and why it matters.
func classOf(aspect string) (class Class, what string, known bool) {
	c, ok := classes[aspect]
	for _, numbered := range []string{aspectAwaited, aspectWatch, aspectWatched} {
		if strings.HasPrefix(aspect, numbered+" ") {
			c, ok = classes[numbered], true
		}
	}
	return c.class, c.what, ok
}
