package image
import ("testing";"io";"syscall";"runtime";"time";"fmt";"sync/atomic";"crypto/ed25519";"filippo.io/age";"crypto/rand";"github.com/diapause/diapause/objectstore/dir";"encoding/binary")
type ctr struct{n uint64}
func (c *ctr) Read(p []byte)(int,error){ for i:=0;i+8<=len(p);i+=8{ c.n=c.n*6364136223846793005+1442695040888963407; binary.LittleEndian.PutUint64(p[i:],c.n)}; return len(p)/8*8,nil}
func cpu() time.Duration { var r syscall.Rusage; syscall.Getrusage(0,&r); return time.Duration(r.Utime.Nano()+r.Stime.Nano())}
func TestZZ(t *testing.T){
 store,_:=dir.Open(shmDir(t,"zz")); id,_:=age.GenerateX25519Identity(); pub,s,_:=ed25519.GenerateKey(rand.Reader)
 w,_:=Create(t.Context(),store,WriteOptions{Tenant:"t",Session:"s",UID:"u",Lineage:"l",Signer:s,SignerName:"h",Recipients:[]age.Recipient{id.Recipient()}})
 var peak atomic.Uint64; stop:=make(chan int); go func(){ for{ select{case <-stop: return; case <-time.After(20*time.Millisecond):}; var m runtime.MemStats; runtime.ReadMemStats(&m); peak.Store(max(peak.Load(),m.HeapAlloc))}}()
 t0:=time.Now(); c0:=cpu(); if err:=w.Add(Entry{Name:"a",Type:TypeFile,Size:-1},io.LimitReader(&ctr{},1<<30));err!=nil{t.Fatal(err)}
 h,_,st,err:=w.Commit(t.Context()); if err!=nil{t.Fatal(err)}
 fmt.Println("write peak MiB",peak.Load()>>20, time.Since(t0), "cpu",cpu()-c0, fmt.Sprintf("%+v",st)); w=nil; runtime.GC();peak.Store(0); 
 for range 3 {
 t0=time.Now(); c0=cpu(); r,err:=Open(t.Context(),store,h,ReadOptions{Identities:[]age.Identity{id},Trusted:func(string,string)[]ed25519.PublicKey{return []ed25519.PublicKey{pub}}}); if err!=nil{t.Fatal(err)}
 rc,_:=r.Open("a"); n,err:=io.Copy(io.Discard,rc); fmt.Println("read peak MiB",peak.Load()>>20,n,err,time.Since(t0),"cpu",cpu()-c0); 
 }
 close(stop)
}
