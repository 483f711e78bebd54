package confine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Where the kernel puts what a filter looks at: struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// x32Bit is set in the numbers of x32 calls, which few kernels have.
const x32Bit = 0x40000000

// compile makes a filter. Calls are in the order of their numbers, neighbours with the same
// verdict are one range.
func compile(r ruleSet) ([]byte, error) {
	wide, err := r.section(arch.X86_64.SyscallNames)
	if err != nil {
		return nil, err
	}
	wide = slices.Concat([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1},
		bpf.RetConstant{Val: errno(unix.ENOSYS)},
	}, wide)
	narrow := []bpf.Instruction{bpf.RetConstant{Val: errno(unix.EPERM)}}
	if r.i386 {
		if narrow, err = r.section(arch.I386.SyscallNames); err != nil {
			return nil, err
		}
		narrow = slices.Concat([]bpf.Instruction{bpf.LoadAbsolute{Off: offsetNumber, Size: 4}}, narrow)
	}
	raw, err := bpf.Assemble(slices.Concat([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(arch.X86_64.ID), SkipFalse: 1},
		bpf.Jump{Skip: uint32(len(narrow)) + 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(arch.I386.ID), SkipTrue: 1},
		bpf.RetConstant{Val: errno(unix.EPERM)},
	}, narrow, wide))
	if err != nil {
		return nil, err
	}
	if len(raw) > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("it comes to %d instructions, %d are allowed", len(raw), unix.BPF_MAXINSNS)
	}
	var b bytes.Buffer
	err = binary.Write(&b, binary.NativeEndian, raw)
	return b.Bytes(), err
}

// verdict is what is decided of a call: code that returns, given the number of the call.
type verdict struct {
	always uint32
	code   []bpf.Instruction // in place of always
}

// section decides of the calls of one architecture. The number is loaded.
func (r ruleSet) section(numbers map[string]int) ([]bpf.Instruction, error) {
	verdicts := map[int]verdict{}
	for name, c := range r.calls {
		number, known := numbers[name]
		if !known {
			continue // of another architecture, or newer than the table
		}
		v, err := r.decide(c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if v.code == nil && v.always == r.otherwise {
			continue
		}
		verdicts[number] = v
	}
	var code []bpf.Instruction
	// upTo returns the verdict for all numbers up to last that came so far.
	upTo := func(last int, v verdict) {
		body := v.code
		if body == nil {
			body = []bpf.Instruction{bpf.RetConstant{Val: v.always}}
		}
		if len(body) <= 255 {
			code = append(code, bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(last), SkipTrue: uint8(len(body))})
		} else {
			code = append(code, bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(last), SkipFalse: 1}, bpf.Jump{Skip: uint32(len(body))})
		}
		code = append(code, body...)
	}
	sorted := slices.Sorted(maps.Keys(verdicts))
	next := 0 // the first number that isn't decided
	for i, n := range sorted {
		if n > next {
			upTo(n-1, verdict{always: r.otherwise})
		}
		next = n + 1
		v := verdicts[n]
		if v.code == nil && i+1 < len(sorted) && sorted[i+1] == next {
			if w := verdicts[next]; w.code == nil && w.always == v.always {
				continue // one range
			}
		}
		upTo(n, v)
	}
	return append(code, bpf.RetConstant{Val: r.otherwise}), nil
}

// decide makes the code of a call's rules.
func (r ruleSet) decide(c *callRules) (v verdict, err error) {
	last := r.otherwise
	var code []bpf.Instruction
	for _, rule := range c.rules {
		if len(rule.args) == 0 {
			last = rule.action
			break
		}
		var one []bpf.Instruction
		one = append(one, bpf.RetConstant{Val: rule.action})
		for _, a := range slices.Backward(rule.args) {
			test, err := compare(a, len(one))
			if err != nil {
				return v, err
			}
			one = append(test, one...)
		}
		code = append(code, one...)
	}
	if code == nil {
		return verdict{always: last}, nil
	}
	return verdict{code: append(code, bpf.RetConstant{Val: last})}, nil
}

// compare makes the test of one argument: it goes on behind it if the argument fits, and past
// the rest, so many instructions, if it doesn't.
func compare(a specs.LinuxSeccompArg, rest int) ([]bpf.Instruction, error) {
	low, high := uint32(a.Value), uint32(a.Value>>32)
	load := func(half uint32) bpf.Instruction {
		return bpf.LoadAbsolute{Off: offsetArgs + 8*uint32(a.Index) + 4*half, Size: 4}
	}
	var code []any
	order := func(above, equalToo bool) {
		// The upper halves decide unless they are equal.
		code = append(code, load(1))
		if above {
			code = append(code, jump{bpf.JumpGreaterThan, high, fits, 0}, jump{bpf.JumpEqual, high, 0, fails})
		} else {
			code = append(code, jump{bpf.JumpLessThan, high, fits, 0}, jump{bpf.JumpEqual, high, 0, fails})
		}
		code = append(code, load(0))
		switch {
		case above && equalToo:
			code = append(code, jump{bpf.JumpGreaterOrEqual, low, fits, fails})
		case above:
			code = append(code, jump{bpf.JumpGreaterThan, low, fits, fails})
		case equalToo:
			code = append(code, jump{bpf.JumpLessOrEqual, low, fits, fails})
		default:
			code = append(code, jump{bpf.JumpLessThan, low, fits, fails})
		}
	}
	switch a.Op {
	case specs.OpEqualTo:
		code = []any{load(1), jump{bpf.JumpEqual, high, 0, fails}, load(0), jump{bpf.JumpEqual, low, fits, fails}}
	case specs.OpNotEqual:
		code = []any{load(1), jump{bpf.JumpEqual, high, 0, fits}, load(0), jump{bpf.JumpEqual, low, fails, fits}}
	case specs.OpGreaterThan:
		order(true, false)
	case specs.OpGreaterEqual:
		order(true, true)
	case specs.OpLessThan:
		order(false, false)
	case specs.OpLessEqual:
		order(false, true)
	case specs.OpMaskedEqual: // Value is the mask
		code = []any{
			load(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: high}, jump{bpf.JumpEqual, uint32(a.ValueTwo >> 32), 0, fails},
			load(0), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: low}, jump{bpf.JumpEqual, uint32(a.ValueTwo), fits, fails},
		}
	default:
		return nil, fmt.Errorf("the comparison %q isn't supported", a.Op)
	}
	return resolve(code, rest)
}

// Where a jump goes, if not to the next instruction.
const (
	fits  = -1 // behind the test
	fails = -2 // behind what follows the test
)

// jump is one whose distances aren't known yet.
type jump struct {
	cond    bpf.JumpTest
	value   uint32
	yes, no int // fits, fails, or 0 to go on
}

// resolve makes instructions of jumps.
func resolve(code []any, rest int) ([]bpf.Instruction, error) {
	var out []bpf.Instruction
	for i, c := range code {
		j, isJump := c.(jump)
		if !isJump {
			out = append(out, c.(bpf.Instruction))
			continue
		}
		left := len(code) - i - 1
		skip := func(to int) uint8 {
			switch to {
			case fits:
				return uint8(left)
			case fails:
				return uint8(left + rest)
			}
			return 0
		}
		if left+rest > 255 {
			return nil, errors.New("it compares too many arguments")
		}
		out = append(out, bpf.JumpIf{Cond: j.cond, Val: j.value, SkipTrue: skip(j.yes), SkipFalse: skip(j.no)})
	}
	return out, nil
}
