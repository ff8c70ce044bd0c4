// Command generate writes the tables of the Go types that Istio passes to its templates.
//
// Its argument is the folder of the tables. `make go-types` runs it, `make generated` compares.
package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoimpl"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	mesh "istio.io/api/mesh/v1alpha1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types that the tables describe by a word instead of by their fields.
var words = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():              "time",
	reflect.TypeFor[meta.FieldsV1]():          "any",
	reflect.TypeFor[resource.Quantity]():      "quantity",
	reflect.TypeFor[intstr.IntOrString]():     "intOrString",
	reflect.TypeFor[*structpb.Struct]():       "any",
	reflect.TypeFor[*durationpb.Duration]():   "duration",
	reflect.TypeFor[*wrapperspb.BoolValue]():  "wrapped bool",
	reflect.TypeFor[*wrapperspb.Int32Value](): "wrapped int32",
	// The templates' methods are those of its signed sibling.
	reflect.TypeFor[*wrapperspb.UInt32Value](): "wrapped int32",
	reflect.TypeFor[*wrapperspb.Int64Value]():  "wrapped int64",
	reflect.TypeFor[*wrapperspb.DoubleValue](): "wrapped float64",
	reflect.TypeFor[*wrapperspb.StringValue](): "wrapped string",
}

type table map[reflect.Type][]string

func main() {
	write("kubernetes.txt", reflect.TypeFor[meta.ObjectMeta](), reflect.TypeFor[core.PodSpec]())
	write("istio.txt", reflect.TypeFor[mesh.MeshConfig]())
}

func write(name string, roots ...reflect.Type) {
	structs := table{}
	for _, root := range roots {
		structs.add(root)
	}
	types := slices.Collect(maps.Keys(structs))
	slices.SortFunc(types, func(a, b reflect.Type) int { return cmp.Compare(a.String(), b.String()) })
	var text strings.Builder
	for _, of := range types {
		fmt.Fprintln(&text, of)
		for _, field := range structs[of] {
			fmt.Fprintln(&text, " ", field)
		}
	}
	if err := os.WriteFile(os.Args[1]+"/"+name, []byte(text.String()), 0o644); err != nil {
		panic(err)
	}
}

func (structs table) add(of reflect.Type) {
	if _, known := structs[of]; known {
		return
	}
	structs[of] = nil
	var lines []string
	for field := range fields(of) {
		lines = append(lines, structs.line(of, field)...)
	}
	structs[of] = lines
}

// fields returns the exported fields of a struct.
func fields(of reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range of.NumField() {
			if field := of.Field(i); field.IsExported() && !yield(field) {
				return
			}
		}
	}
}

func (structs table) line(of reflect.Type, field reflect.StructField) []string {
	if field.Tag.Get("protobuf_oneof") != "" {
		return structs.oneOf(of, field.Type)
	}
	json := field.Tag.Get("json")
	if tag, message := field.Tag.Lookup("protobuf"); message && implements[protoreflect.ProtoMessage](of) {
		json = jsonName(tag) + ",omitempty"
	}
	return []string{fmt.Sprint(field.Name, " ", json, " ", structs.kind(field.Type))}
}

// oneOf returns the members of a protobuf oneof, each of which is a struct with one field.
func (structs table) oneOf(of, member reflect.Type) (lines []string) {
	message := reflect.New(of).Interface().(protoreflect.ProtoMessage).ProtoReflect()
	for _, wrapper := range message.Type().(*protoimpl.MessageInfo).OneofWrappers {
		if pointer := reflect.TypeOf(wrapper); pointer.Implements(member) {
			field := pointer.Elem().Field(0)
			json := jsonName(field.Tag.Get("protobuf")) + ",oneof"
			lines = append(lines, fmt.Sprint(field.Name, " ", json, " ", structs.kind(field.Type)))
		}
	}
	return lines
}

// jsonName returns the JSON name from a protobuf tag, which names it only where it differs.
func jsonName(tag string) (name string) {
	for part := range strings.SplitSeq(tag, ",") {
		if value, found := strings.CutPrefix(part, "name="); found {
			name = value
		}
		if value, found := strings.CutPrefix(part, "json="); found {
			return value
		}
	}
	return name
}

func (structs table) kind(of reflect.Type) string {
	if word := words[of]; word != "" {
		return word
	}
	if implements[protoreflect.Enum](of) {
		values := reflect.Zero(of).Interface().(protoreflect.Enum).Descriptor().Values()
		var names []string
		for i := range values.Len() {
			names = append(names, string(values.Get(i).Name()))
		}
		return "enum " + strings.Join(names, "|")
	}
	switch of.Kind() {
	case reflect.Pointer:
		return "*" + structs.kind(of.Elem())
	case reflect.Slice:
		return "[]" + structs.kind(of.Elem())
	case reflect.Map:
		return "map " + structs.kind(of.Elem())
	case reflect.Struct:
		structs.add(of)
		return of.String()
	default:
		return of.Kind().String()
	}
}

func implements[T any](of reflect.Type) bool {
	return of.Implements(reflect.TypeFor[T]()) || reflect.PointerTo(of).Implements(reflect.TypeFor[T]())
}
