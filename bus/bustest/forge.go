package bustest

import (
	"fmt"
	"reflect"
)

// Extremes are values for forged or mistaken numbers.
var Extremes = []int64{0, 1, 60, 1 << 20, 1 << 24, 3600 * 1e6, 6 * 24 * 3600 * 1e6, 1 << 50, 1<<62 - 1,
	1<<63 - 1, -1, -1 << 62}

// Numbers calls f for every number in a message, with a way to set it; those of lists and parts included.
func Numbers(v reflect.Value, path string, f func(path string, set func(int64))) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			Numbers(v.Elem(), path, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				Numbers(v.Field(i), path+"."+v.Type().Field(i).Name, f)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				Numbers(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
			}
		}
	case reflect.Int, reflect.Int64:
		f(path, v.SetInt)
	case reflect.Uint64, reflect.Uint32:
		f(path, func(n int64) { v.SetUint(uint64(n)) })
	}
}
