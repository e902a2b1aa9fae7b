package expression

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// searches returns the functions indexOf and lastIndexOf. CEL's own compare each position with the whole substring, and their cost
// is checked afterwards: a single call could take seconds. Those of package strings take linear time.
func searches() []cel.EnvOption {
	overload := func(id string, offset bool, search func(text, part string, offset *int64) ref.Val) cel.FunctionOpt {
		if !offset {
			return cel.MemberOverload(id, []*cel.Type{cel.StringType, cel.StringType}, cel.IntType, cel.BinaryBinding(func(text, part ref.Val) ref.Val {
				return search(string(text.(types.String)), string(part.(types.String)), nil)
			}))
		}
		return cel.MemberOverload(id, []*cel.Type{cel.StringType, cel.StringType, cel.IntType}, cel.IntType, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			offset := int64(args[2].(types.Int))
			return search(string(args[0].(types.String)), string(args[1].(types.String)), &offset)
		}))
	}
	return []cel.EnvOption{
		cel.Function("indexOf", overload("string_index_of_string", false, indexOf), overload("string_index_of_string_int", true, indexOf)),
		cel.Function("lastIndexOf", overload("string_last_index_of_string", false, lastIndexOf), overload("string_last_index_of_string_int", true, lastIndexOf)),
	}
}

// indexOf returns the index of the first occurrence of part in text that begins at offset or later, -1 if there is none. It
// counts code points.
func indexOf(text, part string, offset *int64) ref.Val {
	from, length := int64(0), int64(utf8.RuneCountInString(text))
	if offset != nil {
		from = *offset
	}
	switch {
	case from < 0:
		return outOfRange(from)
	case part == "":
		return types.Int(min(from, length))
	case from >= length:
		return types.Int(-1)
	}
	start := bytesOf(text, from)
	at := strings.Index(text[start:], part)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(from + int64(utf8.RuneCountInString(text[start:start+at])))
}

// lastIndexOf returns the index of the last occurrence of part in text that begins at offset or earlier, -1 if there is none.
// It counts code points.
func lastIndexOf(text, part string, offset *int64) ref.Val {
	length := int64(utf8.RuneCountInString(text))
	from := length
	if offset != nil {
		from = *offset
	}
	switch {
	case from < 0:
		return outOfRange(from)
	case part == "":
		return types.Int(min(from, length))
	case offset != nil && from >= length:
		return types.Int(-1)
	}
	end := min(bytesOf(text, from)+len(part), len(text))
	at := strings.LastIndex(text[:end], part)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(text[:at]))
}

// bytesOf returns how many bytes the first n code points of a string have.
func bytesOf(text string, n int64) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

func outOfRange(index int64) ref.Val {
	return types.WrapErr(fmt.Errorf("index out of range: %d", index))
}
