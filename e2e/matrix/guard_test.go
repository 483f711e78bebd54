package matrix

import (
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/fake/guard"
)

// watched makes the lane's fake, with a guard around it.
func (l *lane) watched() *guard.Guard {
	return &guard.Guard{
		Driver: fake.New(),
		Record: func(n schemas.Name) (schemas.SessionRecord, error) {
			v, err := l.records.Get(l.ctx, n)
			return v.SessionRecord, err
		},
		Kept: func(head schemas.Head) (int, error) {
			return guard.Counter(l.ctx, l.disk, head, image.ReadOptions{Identities: l.identities(), Trusted: l.trusted})
		},
	}
}
