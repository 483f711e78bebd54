package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
)

// reseal seals how a session is to be started for those who may open that now. An
// operation under way is left alone: the next pass comes back.
func (k *Keeper) reseal(ctx context.Context, v statekv.Versioned, set Set, out *Report) error {
	to, word, err := set.Sealers()
	if err != nil {
		return err
	}
	if v.Spec == "" || seal.LabelOf(v.Spec) == word || !session.Can(v.State, schemas.TResealed) {
		return nil
	}
	if v.Op != nil {
		out.Busy++
		return nil
	}
	plain, err := seal.Unseal(v.Spec, k.Identities...)
	if errors.Is(err, seal.ErrNoKey) {
		out.Unsealed++
		return nil
	}
	if err != nil {
		return fmt.Errorf("how session %s is to be started: %w", v.Name(), err)
	}
	sealed, err := seal.Seal(plain, to...)
	if err != nil {
		return fmt.Errorf("how session %s is to be started: %w", v.Name(), err)
	}
	_, err = k.Records.Swap(ctx, v, schemas.Transition{
		Type: schemas.TResealed, Reason: "those who may start it have changed", Actor: "keys@" + string(k.Host),
		Set: schemas.Set{Spec: seal.Label(sealed, word)},
	})
	if errors.Is(err, statekv.ErrConflict) {
		out.Busy++ // another writer did the same, or something that comes first
		return nil
	}
	if err == nil {
		out.Resealed++
	}
	return err
}
