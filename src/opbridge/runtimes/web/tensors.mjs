// Tensors and messages of onnxruntime-web as they travel, in Node and in a page of a browser.
//
// A message is 16 digits with the length of a JSON header, the header, and the bytes of the tensors that it tells of.

export const LENGTHS = 16;

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, uint8: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array,
  uint64: BigUint64Array, bool: Uint8Array,
};

export function framed(header, blocks = []) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  return [new TextEncoder().encode(String(text.byteLength).padStart(LENGTHS, "0")), text, ...blocks];
}

function toTensor(ort, said, read) {
  if (said.dtype === "str") return new ort.Tensor("string", said.texts, said.shape);
  const kind = ARRAYS[said.dtype];
  const bytes = read(said.size);
  if (kind === undefined) throw new Error(`onnxruntime-web does not support tensors of ${said.dtype} in JavaScript`);
  const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  let data = new kind(copy);
  if (said.dtype === "float16" && typeof Float16Array !== "undefined") data = new Float16Array(copy);
  return new ort.Tensor(said.dtype, data, said.shape);
}

async function fromTensor(ort, name, tensor) {
  if (!(tensor instanceof ort.Tensor)) throw new Error(`the output ${name} is no tensor`);
  if (tensor.type === "string") {
    return [{ dtype: "str", shape: [...tensor.dims], size: 0, texts: [...tensor.data] }, null];
  }
  const data = await tensor.getData();
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return [{ dtype: tensor.type, shape: [...tensor.dims], size: bytes.byteLength }, bytes];
}

// Runs a session on the tensors that a message tells of, whose bytes `read` gives. Returns a header and blocks.
export async function run(ort, session, asked, read) {
  const feeds = {};
  let failed = null;
  for (const said of asked.feeds) {  // all of them are read, whatever is wrong with one
    try {
      feeds[said.name] = toTensor(ort, said, read);
    } catch (error) {
      failed = error;
    }
  }
  if (failed !== null) throw failed;
  const found = await session.run(feeds);
  const parts = [];
  for (const name of session.outputNames) parts.push(await fromTensor(ort, name, found[name]));
  return [{ outputs: parts.map(([said]) => said) }, parts.map(([, block]) => block).filter((block) => block !== null)];
}

export function refused(error) {
  const message = typeof error === "number" ? `a C++ exception at ${error}` : String(error?.message ?? error);
  return { error: "RunError", message };
}
