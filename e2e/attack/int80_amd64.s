#include "textflag.h"

// func int80(number, first, second, third uint32) int32
TEXT ·int80(SB), NOSPLIT, $0-20
	MOVL number+0(FP), AX
	MOVL first+4(FP), BX
	MOVL second+8(FP), CX
	MOVL third+12(FP), DX
	INT  $0x80
	MOVL AX, ret+16(FP)
	RET
