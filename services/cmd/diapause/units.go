package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/diapause/diapause/schemas"
)

// The types of flags that the help shows.
const (
	typeDuration = "duration"
	typeSize     = "size"
)

// durationValue is a flag that schemas.ParseDuration reads.
type durationValue time.Duration

func durationVar(fl *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	fl.Var((*durationValue)(to), name, usage)
}

func (d *durationValue) Set(s string) error {
	v, err := schemas.ParseDuration(s)
	if err == nil {
		*d = durationValue(v)
	}
	return err
}

func (d *durationValue) Type() string { return typeDuration }

// String is empty for 0, which is no default worth showing.
func (d *durationValue) String() string {
	if *d == 0 {
		return ""
	}
	text := time.Duration(*d).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// sizeValue is a flag that schemas.ParseBytes reads.
type sizeValue int64

func sizeVar(fl *pflag.FlagSet, to *int64, name, usage string) { fl.Var((*sizeValue)(to), name, usage) }

func (b *sizeValue) Set(s string) error {
	v, err := schemas.ParseBytes(s)
	if err == nil {
		*b = sizeValue(v)
	}
	return err
}

func (b *sizeValue) Type() string { return typeSize }

func (b *sizeValue) String() string {
	if *b == 0 {
		return ""
	}
	return schemas.Bytes(*b).String()
}
