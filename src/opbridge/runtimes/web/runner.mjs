// Loads models into onnxruntime-web (wasm, one thread) and runs them: requests on stdin, answers on stdout.
//
// node runner.mjs FOLDER_OF_THE_PACKAGE
//
// A message is 16 digits with the length of a JSON header, the header, and the bytes of the tensors that it tells of.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const LENGTHS = 16;
const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, uint8: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array,
  uint64: BigUint64Array, bool: Uint8Array,
};
const folder = process.argv[2];
const answers = fs.openSync("/dev/fd/1", "w");
console.log = console.info = console.warn = console.error;

const ort = await import(pathToFileURL(path.join(folder, "dist", "ort.node.min.mjs")).href);
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";
let session = null;

function read(size) {
  const data = Buffer.alloc(size);
  let at = 0;
  while (at < size) {
    const count = fs.readSync(0, data, at, size - at, null);
    if (count === 0) process.exit(0);
    at += count;
  }
  return data;
}

function write(data) {
  let at = 0;
  while (at < data.byteLength) at += fs.writeSync(answers, data, at, data.byteLength - at);
}

function send(header, blocks = []) {
  const text = Buffer.from(JSON.stringify(header));
  write(Buffer.from(String(text.byteLength).padStart(LENGTHS, "0")));
  write(text);
  for (const block of blocks) write(block);
}

function toTensor(said) {
  if (said.dtype === "str") return new ort.Tensor("string", said.texts, said.shape);
  const kind = ARRAYS[said.dtype];
  const bytes = read(said.size);
  if (kind === undefined) throw new Error(`onnxruntime-web has no tensors of ${said.dtype} in JavaScript`);
  const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  let data = new kind(copy);
  if (said.dtype === "float16" && typeof Float16Array !== "undefined") data = new Float16Array(copy);
  return new ort.Tensor(said.dtype, data, said.shape);
}

function fromTensor(name, tensor) {
  if (!(tensor instanceof ort.Tensor)) throw new Error(`the output ${name} is no tensor`);
  if (tensor.type === "string") {
    return [{ dtype: "str", shape: [...tensor.dims], size: 0, texts: [...tensor.data] }, null];
  }
  const data = tensor.data;
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return [{ dtype: tensor.type, shape: [...tensor.dims], size: bytes.byteLength }, bytes];
}

async function load(asked) {
  if (session !== null) await session.release();
  session = null;
  const content = asked.model === null ? read(asked.size) : fs.readFileSync(asked.model);
  const base = asked.model === null ? null : path.dirname(asked.model);
  const externalData = base === null ? [] : asked.external.map(
    (name) => ({ path: name, data: new Uint8Array(fs.readFileSync(path.join(base, name))) }));
  const model = new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
  session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"], externalData, logSeverityLevel: 4 });
  send({ inputs: session.inputNames, outputs: session.outputNames });
}

async function run(asked) {
  const feeds = {};
  let failed = null;
  for (const said of asked.feeds) {  // all of them are read, whatever is wrong with one
    try {
      feeds[said.name] = toTensor(said);
    } catch (error) {
      failed = error;
    }
  }
  if (failed !== null) throw failed;
  const found = await session.run(feeds);
  const parts = session.outputNames.map((name) => fromTensor(name, found[name]));
  send({ outputs: parts.map(([said]) => said) }, parts.map(([, block]) => block).filter((block) => block !== null));
}

for (;;) {
  const size = Number(read(LENGTHS).toString());
  const asked = JSON.parse(read(size).toString());
  try {
    await (asked.feeds === undefined ? load(asked) : run(asked));
  } catch (error) {
    const message = typeof error === "number" ? `a C++ exception at ${error}` : String(error?.message ?? error);
    send({ error: "RunError", message });
  }
}
