package api
import ("testing";"fmt";"runtime";"encoding/json";"strings";"time";"unsafe"
"github.com/diapause/diapause/schemas";"github.com/diapause/diapause/events/statekv")
func rec(i int) []byte {
	at := time.Now().UTC()
	r := schemas.SessionRecord{UID: schemas.UID(fmt.Sprintf("u%022d", i)), Tenant:"acme", Session: schemas.SessionID(fmt.Sprintf("web-%d",i)), Version: 12, Epoch: 9, State: schemas.Suspended, Since: at, Created: at, Class:"web",Driver:"criu",MadeBy:"person",Program:"bash",Host:"vm-12345678",Boot:"resume",Lineage: fmt.Sprintf("u%022d", i), Spec: strings.Repeat("QUJD", 200), Seq: 1234567, Generation: 3}
	r.Head = &schemas.Head{Name: fmt.Sprintf("acme/u%022d/snaps/9-1",i), Digest: strings.Repeat("ab",32)}
	r.Size = &schemas.Sizes{At: at, Logical: 1<<30, New: 1<<20, Stored: 1<<19}
	r.Transition = schemas.Transition{ID: "abcdefghijklmnopqrstuv", Type: schemas.TReaped, Reason: "its frozen processes are gone", Actor: "worker@vm-12345678", At: at, Op: "abcdefghijklmnopqrstuv"}
	for _, n := range []string{"preflight","freeze","dump","pages","index","upload"} { r.Transition.Stages = append(r.Transition.Stages, schemas.Stage{Name: n, MS: 12, Bytes: 1<<20}) }
	d, err := json.Marshal(r); if err != nil { panic(err) }
	return d
}
func TestZZ(t *testing.T) {
	const n = 100000
	fmt.Println("struct", unsafe.Sizeof(schemas.SessionRecord{}), "json", len(rec(1)))
	all := make([][]byte, n); for i := range all { all[i] = rec(i) }
	var m runtime.MemStats
	heap := func() uint64 { runtime.GC(); runtime.GC(); runtime.ReadMemStats(&m); return m.HeapAlloc }
	before := heap()
	b := newBoard()
	t0 := time.Now()
	for i := range all { var r schemas.SessionRecord; if err := json.Unmarshal(all[i], &r); err != nil { t.Fatal(err) }; b.put(statekv.Versioned{SessionRecord: r}) }
	fmt.Println("per session", (heap()-before)/n, time.Since(t0)/n)
	runtime.KeepAlive(b); runtime.KeepAlive(all)
}
