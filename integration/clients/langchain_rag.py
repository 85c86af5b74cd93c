"""LangChain's RAG quick-start against a gateway: embeddings, a store in memory, and a chat."""
import sys

try:
    from langchain_core.documents import Document
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings
    import numpy  # of the store
except ImportError:
    sys.exit(77)

# else it sends the token ids of OpenAI's own models
embeddings = OpenAIEmbeddings(model="bge-m3", check_embedding_ctx_length=False)
store = InMemoryVectorStore(embeddings)
store.add_documents([Document(text) for text in [
    "A souk is an open market in the cities of North Africa.", "Fish live in the sea.", "Cars have four wheels."]])
question = "What is a souk in North Africa?"
found = store.similarity_search(question, k=1)
assert "souk" in found[0].page_content, found
prompt = ChatPromptTemplate.from_messages([("system", "Answer by this: {context}"), ("user", "{question}")])
chain = prompt | ChatOpenAI(model="gpt-oss-20b", max_tokens=20)
answer = chain.invoke({"context": found[0].page_content, "question": question})
assert answer.content and answer.usage_metadata["output_tokens"] == 20, answer
print("ok")
